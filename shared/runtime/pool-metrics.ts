import type { Registry } from 'prom-client';
import { registerCollected, type Sample } from './collected-metric.ts';

export interface PoolMetricsSource {
  /** For all models together; undefined while nobody knows. Then nothing is told of the pool. */
  readonly desiredWorkers: number | undefined;
  readonly models: readonly {
    readonly name: string;
    readonly waiting_rows: number;
    readonly running_rows: number;
    readonly rows_per_second: number | null;
    readonly desired_workers: number;
  }[];
  workers(): readonly { readonly state: string }[];
}

const STATES = ['draining', 'not_ready', 'ready'] as const;

/** What an autoscaler wants to know of the pool. Each producer tells the same of the whole pool, so take the largest. */
export function registerPoolMetrics(registry: Registry, source: PoolMetricsSource): void {
  const gauge = (name: string, help: string, samples: () => Sample[]) =>
    registerCollected(registry, 'gauge', name, help, samples);
  const perModel = (value: (model: PoolMetricsSource['models'][number]) => number | null) => (): Sample[] =>
    source.models.flatMap((model) => {
      const shown = value(model);
      return shown === null ? [] : [{ labels: { model: model.name }, value: shown }];
    });
  gauge('millrace_desired_workers', 'Number of workers that the pool should have for all its models', () =>
    source.desiredWorkers === undefined ? [] : [{ labels: {}, value: source.desiredWorkers }],
  );
  gauge(
    'millrace_model_desired_workers',
    'Number of workers that a model alone should have',
    perModel((model) => model.desired_workers),
  );
  gauge(
    'millrace_backlog_rows',
    'Rows in the queue that no worker has taken, of all producers',
    perModel((model) => model.waiting_rows),
  );
  gauge(
    'millrace_running_rows',
    'Rows that workers have in hand',
    perModel((model) => model.running_rows),
  );
  gauge(
    'millrace_worker_rows_per_second',
    'Rows a second that one worker gets done, as measured last',
    perModel((model) => model.rows_per_second),
  );
  gauge('millrace_workers', 'Number of workers by state', () => {
    if (source.desiredWorkers === undefined) return [];
    const workers = source.workers();
    return STATES.map((state) => ({ labels: { state }, value: workers.filter((w) => w.state === state).length }));
  });
}
