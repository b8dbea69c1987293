import { InferError } from '../shared/errors.ts';
import type { MetricsOptions } from '../shared/runtime/metrics.ts';

/** Triton's keys, each with the value that cannot be had here; undefined where both can. */
const KEYS: ReadonlyMap<string, 'true' | 'false' | undefined> = new Map([
  ['counter_latencies', 'false'],
  ['histogram_latencies', undefined],
  ['summary_latencies', 'true'],
]);

/** What `--metrics-config` says, as KEY=true or KEY=false. @throws InferError INVALID_ARGUMENT */
export function parseMetricsConfig(texts: readonly string[]): MetricsOptions {
  let histogramLatencies = false;
  for (const text of texts) {
    const [, key = '', value = ''] = /^(\w+)=(true|false)$/.exec(text) ?? [];
    if (!KEYS.has(key))
      throw refusal(`expected one of ${[...KEYS.keys()].join(', ')} with =true or =false, got "${text}"`);
    if (KEYS.get(key) === value) throw refusal(`${text} is not supported`);
    if (key === 'histogram_latencies') histogramLatencies = value === 'true';
  }
  return { histogramLatencies };
}

function refusal(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `--metrics-config: ${what}`);
}
