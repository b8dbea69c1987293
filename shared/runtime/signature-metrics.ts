import type { Registry } from 'prom-client';
import type { QueueKeys } from '../wire/queue-keys.ts';
import { registerCollected } from './collected-metric.ts';

/** What was found in Redis and refused because it was not signed as it should be. */
export function registerSignatureMetrics(registry: Registry, keys: Pick<QueueKeys, 'refused'>): void {
  const help = 'Number of things from Redis that were refused for their signature, by what they should have been';
  registerCollected(registry, 'counter', 'millrace_signatures_refused_total', help, () =>
    Array.from(keys.refused(), ([thing, value]) => ({ labels: { thing }, value })),
  );
}
