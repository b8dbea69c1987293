import { collectDefaultMetrics, Registry } from 'prom-client';
import type { ModelStats } from '../infer/model-stats.ts';
import { FAILURE_REASONS } from '../infer/model-stats.ts';
import { RELEASE_REASONS } from '../infer/response.ts';
import { FIRST_RESPONSE_FAMILY } from '../model/metric-settings.ts';
import { registerBatchingMetrics } from './batching-metrics.ts';
import { registerCollected, type Sample } from './collected-metric.ts';
import { registerMachineMetrics } from './machine-metrics.ts';

/** Where the figures come from at the moment of a scrape. Nothing is recorded twice on the way of a request. */
export interface MetricsSource {
  /** One per model version that is loaded. */
  stats(): Iterable<ModelStats>;
  /** Requests of a model version that wait and do not run yet. */
  pending(model: string, version: string): number;
}

export interface MetricsOptions {
  /** Whether to show how long first responses took. Default false. */
  readonly histogramLatencies?: boolean;
}

/** A registry with the metrics of the process, of the machine and of each model, read from `source` at each scrape. */
export function createMetricsRegistry(source: MetricsSource, options: MetricsOptions = {}): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  registerMachineMetrics(registry);
  registerModelMetrics(registry, source);
  registerBatchingMetrics(registry, source);
  registerPaddingMetrics(registry, source);
  if (options.histogramLatencies) {
    const help = 'Duration from request to first response in milliseconds';
    registerCollected(registry, 'histogram', FIRST_RESPONSE_FAMILY, help, () => firstResponses(source));
  }
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
  registerCollected(registry, 'histogram', BATCH_SIZE, 'Rows of each model execution', () => batchSizes(source));
  registerCollected(
    registry,
    'counter',
    'millrace_batch_release_total',
    'Number of model executions by the reason for which their batch was released',
    () => releases(source),
  );
}

/** Of models with padding only; others have no length. */
function registerPaddingMetrics(registry: Registry, source: MetricsSource): void {
  const counter = (name: string, help: string, value: (stats: ModelStats) => number) =>
    registerCollected(registry, 'counter', name, help, () =>
      Array.from(source.stats())
        .filter((stats) => stats.pads)
        .map((stats) => ({ labels: labelsOf(stats), value: value(stats) })),
    );
  const run = 'Rows times length of all executions of models with padding';
  counter('millrace_batch_elements_total', run, (stats) => stats.batchElements);
  const padded = 'Rows times length of padding that executions ran beside their requests';
  counter('millrace_padded_elements_total', padded, (stats) => stats.paddedElements);
}

/** Tags begin with _ and so come before all other names. */
function labelsOf(stats: ModelStats): Sample['labels'] {
  return { ...stats.tags, model: stats.model, version: stats.version };
}

function failures(source: MetricsSource): Sample[] {
  const samples: Sample[] = [];
  for (const stats of source.stats()) {
    for (const reason of FAILURE_REASONS) {
      const labels = { ...stats.tags, model: stats.model, reason, version: stats.version };
      samples.push({ labels, value: stats.failures[reason] });
    }
  }
  return samples;
}

function releases(source: MetricsSource): Sample[] {
  const samples: Sample[] = [];
  for (const stats of source.stats()) {
    for (const reason of RELEASE_REASONS) {
      const labels = { ...stats.tags, model: stats.model, reason, version: stats.version };
      samples.push({ labels, value: stats.releases[reason] });
    }
  }
  return samples;
}

const BATCH_SIZE = 'millrace_batch_size';
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
    samples.push(bucketSample(BATCH_SIZE, stats, bound, cumulative));
  }
  endHistogram(samples, BATCH_SIZE, stats, executions, rows);
}

function firstResponses(source: MetricsSource): Sample[] {
  const samples: Sample[] = [];
  for (const stats of source.stats()) {
    const { boundsMs, count, sumMs } = stats.firstResponse;
    for (const [index, upTo] of stats.firstResponse.cumulative().entries()) {
      samples.push(bucketSample(FIRST_RESPONSE_FAMILY, stats, boundsMs[index] ?? Infinity, upTo));
    }
    endHistogram(samples, FIRST_RESPONSE_FAMILY, stats, count, sumMs);
  }
  return samples;
}

function bucketSample(name: string, stats: ModelStats, bound: number | string, value: number): Sample {
  const labels = { ...stats.tags, le: bound, model: stats.model, version: stats.version };
  return { metricName: `${name}_bucket`, labels, value };
}

function endHistogram(samples: Sample[], name: string, stats: ModelStats, count: number, sum: number): void {
  samples.push(bucketSample(name, stats, '+Inf', count));
  samples.push({ metricName: `${name}_sum`, labels: labelsOf(stats), value: sum });
  samples.push({ metricName: `${name}_count`, labels: labelsOf(stats), value: count });
}
