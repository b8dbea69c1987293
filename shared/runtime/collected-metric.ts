import type { Metric, Registry } from 'prom-client';

export interface Sample {
  /** Keys in alphabetical order: they are printed in this order. */
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** For the series of a histogram, whose names have a suffix. */
  readonly metricName?: string;
}

/** Adds a metric whose samples are computed at each scrape. */
export function registerCollected(
  registry: Registry,
  type: 'counter' | 'gauge' | 'histogram',
  name: string,
  help: string,
  samples: () => Sample[],
): void {
  const metric = {
    name,
    help,
    type,
    aggregator: 'sum',
    get: () => ({ name, help, type, aggregator: 'sum', values: samples() }),
  };
  registry.registerMetric(metric as unknown as Metric); // the registry calls nothing but `get`; the classes of prom-client would keep a second copy of every figure
}
