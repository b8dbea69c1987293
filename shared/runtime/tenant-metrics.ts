import type { Registry } from 'prom-client';
import { registerCollected } from './collected-metric.ts';

export interface TenantMetricsSource {
  /** By name, of the tenants that there are. */
  counts(): ReadonlyMap<string, { readonly admitted: number; readonly refused: number }>;
}

/** The metrics of tenants: two series for each that the keys file names now, so there are never more than it has. */
export function registerTenantMetrics(registry: Registry, source: TenantMetricsSource): void {
  const help = 'Number of requests of a tenant by whether they were let in, or refused for its quota or its models';
  registerCollected(registry, 'counter', 'millrace_tenant_requests_total', help, () =>
    Array.from(source.counts()).flatMap(([tenant, { admitted, refused }]) => [
      { labels: { result: 'admitted', tenant }, value: admitted },
      { labels: { result: 'refused', tenant }, value: refused },
    ]),
  );
}
