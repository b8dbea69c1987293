import type { Registry } from 'prom-client';
import type { BatchingReport } from '../infer/batching-report.ts';
import type { ModelStats } from '../infer/model-stats.ts';
import { registerCollected, type Sample } from './collected-metric.ts';

/** What becomes of the requests of models that batch: the measured curve, and the limits that hold now. */
export function registerBatchingMetrics(registry: Registry, source: { stats(): Iterable<ModelStats> }): void {
  const gauge = (name: string, help: string, valueOf: (report: BatchingReport) => number | undefined) =>
    registerCollected(registry, 'gauge', name, help, () => samplesOf(source, valueOf));
  registerCollected(
    registry,
    'gauge',
    'millrace_batch_curve_ms',
    'Duration of a run by its rows in milliseconds, as measured when the model was loaded',
    () => curves(source),
  );
  gauge('millrace_batch_max_rows', 'Most rows of a run that is put together from several requests', (report) =>
    report.merges ? report.maxRows : 1,
  );
  const delay = 'How long a request may wait for company in milliseconds';
  gauge('millrace_batch_delay_ms', delay, ({ delayMs }) => delayMs);
  const memory = 'Most rows of a run of the shape that is bounded most, since larger runs found no memory';
  registerCollected(registry, 'gauge', 'millrace_batch_memory_rows', memory, () => memoryLimits(source));
  const company = 'How far an answer moves with the rows beside it, relative to its size, as measured at load';
  gauge('millrace_batch_company_difference', company, (report) => report.company?.relative);
}

function samplesOf(
  source: { stats(): Iterable<ModelStats> },
  valueOf: (report: BatchingReport) => number | undefined,
): Sample[] {
  const samples: Sample[] = [];
  for (const { batching, tags, model, version } of source.stats()) {
    const value = batching && valueOf(batching);
    if (value !== undefined) samples.push({ labels: { ...tags, model, version }, value });
  }
  return samples;
}

function memoryLimits(source: { stats(): Iterable<ModelStats> }): Sample[] {
  const samples: Sample[] = [];
  for (const { memoryRows, tags, model, version } of source.stats()) {
    if (memoryRows !== undefined) samples.push({ labels: { ...tags, model, version }, value: memoryRows });
  }
  return samples;
}

function curves(source: { stats(): Iterable<ModelStats> }): Sample[] {
  const samples: Sample[] = [];
  for (const { batching, tags, model, version } of source.stats()) {
    for (const { rows, ms } of batching?.curve ?? []) {
      samples.push({ labels: { ...tags, model, rows, version }, value: ms });
    }
  }
  return samples;
}
