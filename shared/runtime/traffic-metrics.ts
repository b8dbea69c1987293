import type { Registry } from 'prom-client';
import { registerCollected, type Sample } from './collected-metric.ts';

type ByVersion<T> = ReadonlyMap<string, ReadonlyMap<string, T>>;

export interface TrafficMetricsSource {
  /** By model and version. */
  requests(): ByVersion<{ readonly count: number }>;
  shadows(): ByVersion<{
    readonly same: number;
    readonly different: number;
    readonly errors: number;
    readonly skipped: number;
    readonly shadowUs: number;
    readonly servedUs: number;
  }>;
}

/** The metrics of requests that were spread over versions. A series is there once it has counted something. */
export function registerTrafficMetrics(registry: Registry, source: TrafficMetricsSource): void {
  const counter = (name: string, help: string, samples: () => Sample[]) =>
    registerCollected(registry, 'counter', name, help, samples);
  counter(
    'millrace_traffic_requests_total',
    'Number of requests without a version by the version that a traffic rule chose',
    () => each(source.requests(), ({ count }, labels) => [{ labels, value: count }]),
  );
  counter(
    'millrace_shadow_requests_total',
    'Number of copies of requests by what came of comparing their answers',
    () =>
      each(source.shadows(), ({ same, different, errors, skipped }, { model, version }) =>
        Object.entries({ same, different, error: errors, skipped }).map(([result, value]) => ({
          labels: { model, result, version },
          value,
        })),
      ),
  );
  counter('millrace_shadow_duration_us', 'Cumulative duration of copies that were answered, in microseconds', () =>
    each(source.shadows(), ({ shadowUs }, labels) => [{ labels, value: Math.floor(shadowUs) }]),
  );
  counter(
    'millrace_shadow_served_duration_us',
    'Cumulative duration of the requests that those are copies of, in microseconds',
    () => each(source.shadows(), ({ servedUs }, labels) => [{ labels, value: Math.floor(servedUs) }]),
  );
}

function each<T>(
  byModel: ByVersion<T>,
  samplesOf: (value: T, labels: { model: string; version: string }) => Sample[],
): Sample[] {
  const samples: Sample[] = [];
  for (const [model, versions] of byModel) {
    for (const [version, value] of versions) samples.push(...samplesOf(value, { model, version }));
  }
  return samples;
}
