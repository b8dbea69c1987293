import type { Registry } from 'prom-client';
import { registerCollected } from './collected-metric.ts';

/** How long a worker has done nothing but fail: what an alert about a broken GPU or model looks at. */
export function registerFailureMetrics(registry: Registry, streak: { readonly length: number }): void {
  const help = 'Requests that failed by a fault of the model or the server since the last one that succeeded';
  registerCollected(registry, 'gauge', 'millrace_failures_in_row', help, () => [{ labels: {}, value: streak.length }]);
}
