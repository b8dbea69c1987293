import { collectDefaultMetrics, Registry } from 'prom-client';
import type { ModelStats } from '../infer/model-stats.ts';
import { FAILURE_REASONS } from '../infer/model-stats.ts';
import { RELEASE_REASONS } from '../infer/response.ts';
import { registerCollected, type Sample } from './collected-metric.ts';
import { registerMachineMetrics } from './machine-metrics.ts';

/** Where the figures come from at the moment of a scrape. Nothing is recorded twice on the way of a request. */
export interface MetricsSource {
  /** One per model version that is loaded. */
  stats(): Iterable<ModelStats>;
  /** Requests of a model version that wait and do not run yet. */
  pending(model: string, version: string): number;
}

/** A registry with the metrics of the process, of the machine and of each model, read from `source` at each scrape. */
export function createMetricsRegistry(source: MetricsSource): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  registerMachineMetrics(registry);
  registerModelMetrics(registry, source);
  return registry;
}

function registerModelMetrics(registry: Registry, source: MetricsSource): void {
  const perModel = (value: (stats: ModelStats) => number) => (): Sample[] =>
    Array.from(source.stats(), (stats) => ({ labels: labelsOf(stats), value: value(stats) }));
  const counter = (name: string, help: string, value: (stats: ModelStats) => number) =>
    registerCollected(registry, 'counter', name, help, perModel(value));
  const microseconds = (ns: number) => Math.floor(ns / 1000);

  counter('nv_inference_request_success', 'Number of successful inference requests', (s) => s.success.count);
  registerCollected(
    registry,
    'counter',
    'nv_inference_request_failure',
    'Number of failed inference requests by reason',
    () => failures(source),
  );
  counter('nv_inference_count', 'Number of inferences performed, in rows', (s) => s.inferenceCount);
  counter('nv_inference_exec_count', 'Number of model executions performed', (s) => s.executionCount);
  counter('nv_inference_request_duration_us', 'Cumulative request duration in microseconds', (s) =>
    microseconds(s.success.ns),
  );
  counter('nv_inference_queue_duration_us', 'Cumulative waiting duration in microseconds', (s) =>
    microseconds(s.queue.ns),
  );
  counter('nv_inference_compute_input_duration_us', 'Cumulative duration of input assembly in microseconds', (s) =>
    microseconds(s.computeInput.ns),
  );
  counter('nv_inference_compute_infer_duration_us', 'Cumulative duration of model runs in microseconds', (s) =>
    microseconds(s.computeInfer.ns),
  );
  counter('nv_inference_compute_output_duration_us', 'Cumulative duration of output splitting in microseconds', (s) =>
    microseconds(s.computeOutput.ns),
  );
  registerCollected(
    registry,
    'gauge',
    'nv_inference_pending_request_count',
    'Number of requests that wait for execution',
    perModel((stats) => source.pending(stats.model, stats.version)),
  );
  registerCollected(
    registry,
    'gauge',
    'nv_model_load_duration_secs',
    'Duration of the last model load in seconds',
    perModel((stats) => stats.loadSeconds),
  );
  registerCollected(registry, 'histogram', 'millrace_batch_size', 'Rows of each model execution', () =>
    batchSizes(source),
  );
  registerCollected(
    registry,
    'counter',
    'millrace_batch_release_total',
    'Number of model executions by the reason for which their batch was released',
    () => releases(source),
  );
}

function labelsOf(stats: ModelStats): { model: string; version: string } {
  return { model: stats.model, version: stats.version };
}

function failures(source: MetricsSource): Sample[] {
  const samples: Sample[] = [];
  for (const stats of source.stats()) {
    for (const reason of FAILURE_REASONS) {
      const labels = { model: stats.model, reason, version: stats.version };
      samples.push({ labels, value: stats.failures[reason] });
    }
  }
  return samples;
}

function releases(source: MetricsSource): Sample[] {
  const samples: Sample[] = [];
  for (const stats of source.stats()) {
    for (const reason of RELEASE_REASONS) {
      const labels = { model: stats.model, reason, version: stats.version };
      samples.push({ labels, value: stats.releases[reason] });
    }
  }
  return samples;
}

const BATCH_SIZE_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

function batchSizes(source: MetricsSource): Sample[] {
  const samples: Sample[] = [];
  for (const stats of source.stats()) batchSizesOf(stats, samples);
  return samples;
}

function batchSizesOf(stats: ModelStats, samples: Sample[]): void {
  const inBucket = new Array<number>(BATCH_SIZE_BUCKETS.length).fill(0);
  let executions = 0;
  let rows = 0;
  for (const [size, { executions: count }] of stats.batchSizes) {
    executions += count;
    rows += size * count;
    const bucket = BATCH_SIZE_BUCKETS.findIndex((bound) => size <= bound);
    if (bucket >= 0) inBucket[bucket] = (inBucket[bucket] ?? 0) + count;
  }
  let cumulative = 0;
  for (const [index, bound] of BATCH_SIZE_BUCKETS.entries()) {
    cumulative += inBucket[index] ?? 0;
    samples.push(histogramSample('bucket', { le: bound, ...labelsOf(stats) }, cumulative));
  }
  samples.push(histogramSample('bucket', { le: '+Inf', ...labelsOf(stats) }, executions));
  samples.push(histogramSample('sum', labelsOf(stats), rows));
  samples.push(histogramSample('count', labelsOf(stats), executions));
}

function histogramSample(suffix: string, labels: Sample['labels'], value: number): Sample {
  return { metricName: `millrace_batch_size_${suffix}`, labels, value };
}
