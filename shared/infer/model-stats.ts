import type { InferError } from '../errors.ts';
import { DEFAULT_BOUNDS_MS, firstResponseBoundsOf, metricTagsOf } from '../model/metric-settings.ts';
import { pads } from '../model/padding-settings.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import type { BatchingReport } from './batching-report.ts';
import { LatencyHistogram } from './latency-histogram.ts';
import type { ReleaseReason, Timings } from './response.ts';
import { RELEASE_REASONS } from './response.ts';

/** Why a request failed, in the words of Triton's metrics. */
export const FAILURE_REASONS = ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];

/** Executions of one batch size: how many, and how long their parts took together. */
export interface BatchSizeStats {
  executions: number;
  computeInputNs: number;
  computeInferNs: number;
  computeOutputNs: number;
}

/** How often something happened and how long it took together. */
export interface CountAndNs {
  readonly count: number;
  readonly ns: number;
}

/**
 * What happened to the requests of one model version, with Triton's meaning: `inferences` counts rows, `executions` runs,
 * and the compute time of a batch is charged in full to each of its requests. Plain sums; recording allocates nothing.
 */
export class ModelStats {
  readonly model: string;
  readonly version: string;
  /** How long the last load took. */
  loadSeconds = 0;
  /** What its scheduler makes of its requests; undefined where that is nothing to speak of. */
  batching: BatchingReport | undefined;
  /** Most rows of a run for the shape that is bounded most, since larger ones found no memory; undefined where none did. */
  memoryRows: number | undefined;
  #config: ModelConfig | undefined;
  #tags: Readonly<Record<string, string>> = {};
  #firstResponse = new LatencyHistogram(DEFAULT_BOUNDS_MS);
  #successes = 0;
  #inferences = 0;
  #executions = 0;
  #requestNs = 0;
  #queueNs = 0;
  #computeInputNs = 0;
  #computeInferNs = 0;
  #computeOutputNs = 0;
  #failureNs = 0;
  #lastInferenceMs = 0;
  #elements = 0;
  #paddedElements = 0;
  #cacheHits = 0;
  #cacheHitNs = 0;
  #cacheMisses = 0;
  #cacheMissNs = 0;
  readonly #failures: Record<FailureReason, number> = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 };
  readonly #releases = Object.fromEntries(RELEASE_REASONS.map((reason) => [reason, 0])) as Record<
    ReleaseReason,
    number
  >; // fromEntries forgets the key type; the keys are exactly RELEASE_REASONS
  readonly #batchSizes = new Map<number, BatchSizeStats>();

  constructor(model: string, version: string) {
    this.model = model;
    this.version = version;
  }

  /** The config that serves now, which says how the figures are shown. Other bounds begin their histogram anew. */
  describe(config: ModelConfig): void {
    if (config === this.#config) return;
    this.#config = config;
    this.#tags = metricTagsOf(config);
    const bounds = firstResponseBoundsOf(config);
    const { boundsMs } = this.#firstResponse;
    const same = bounds.length === boundsMs.length && bounds.every((bound, index) => bound === boundsMs[index]);
    if (!same) this.#firstResponse = new LatencyHistogram(bounds);
  }

  /** `rows` are those of the request (at least 1 counts); `requestDurationUs` is from its arrival to its answer. */
  recordSuccess(rows: number, requestDurationUs: number, timings: Timings): void {
    this.#successes += 1;
    this.#inferences += rows > 0 ? rows : 1;
    this.#requestNs += requestDurationUs * 1000;
    this.#firstResponse.record(requestDurationUs / 1000);
    this.#queueNs += timings.queueUs * 1000;
    this.#computeInputNs += timings.computeInputUs * 1000;
    this.#computeInferNs += timings.computeInferUs * 1000;
    this.#computeOutputNs += timings.computeOutputUs * 1000;
    if (timings.executions === 1) this.#recordExecution(timings);
  }

  /** A request that was answered without a run: it is a success, and counts neither rows nor computing. */
  recordCacheHit(requestDurationUs: number, lookupUs: number): void {
    this.#successes += 1;
    this.#requestNs += requestDurationUs * 1000;
    this.#firstResponse.record(requestDurationUs / 1000);
    this.#cacheHits += 1;
    this.#cacheHitNs += lookupUs * 1000;
  }

  /** A request that had to run, which `recordSuccess` counts; `us` is what looking up and keeping its answer took. */
  recordCacheMiss(us: number): void {
    this.#cacheMisses += 1;
    this.#cacheMissNs += us * 1000;
  }

  /**
   * A request that was taken in and failed. As in Triton, one that was refused at entry counts nowhere: what validation
   * refuses never comes here, and a full queue says so in its error.
   */
  recordFailure(error: InferError, requestDurationUs = 0): void {
    if (error.refusedAt === 'entry') return;
    this.#failures[failureReasonOf(error)] += 1;
    this.#failureNs += requestDurationUs * 1000;
  }

  /** Extra labels of the model's metrics, in the order of their names. */
  get tags(): Readonly<Record<string, string>> {
    return this.#tags;
  }

  /** How long successful requests took from their arrival to their answer. */
  get firstResponse(): LatencyHistogram {
    return this.#firstResponse;
  }

  get success(): CountAndNs {
    return { count: this.#successes, ns: Math.round(this.#requestNs) };
  }

  get fail(): CountAndNs {
    const count = FAILURE_REASONS.reduce((sum, reason) => sum + this.#failures[reason], 0);
    return { count, ns: Math.round(this.#failureNs) };
  }

  get queue(): CountAndNs {
    return { count: this.#successes, ns: Math.round(this.#queueNs) };
  }

  get computeInput(): CountAndNs {
    return { count: this.#successes - this.#cacheHits, ns: Math.round(this.#computeInputNs) };
  }

  get computeInfer(): CountAndNs {
    return { count: this.#successes - this.#cacheHits, ns: Math.round(this.#computeInferNs) };
  }

  get computeOutput(): CountAndNs {
    return { count: this.#successes - this.#cacheHits, ns: Math.round(this.#computeOutputNs) };
  }

  get cacheHit(): CountAndNs {
    return { count: this.#cacheHits, ns: Math.round(this.#cacheHitNs) };
  }

  get cacheMiss(): CountAndNs {
    return { count: this.#cacheMisses, ns: Math.round(this.#cacheMissNs) };
  }

  /** Rows of all successful requests that were run. */
  get inferenceCount(): number {
    return this.#inferences;
  }

  /** Runs of the model that answered at least one request. */
  get executionCount(): number {
    return this.#executions;
  }

  /** Milliseconds since 1970; 0 before the first inference. */
  get lastInferenceMs(): number {
    return this.#lastInferenceMs;
  }

  get failures(): Readonly<Record<FailureReason, number>> {
    return this.#failures;
  }

  /** Executions by the reason for which their batch was released. */
  get releases(): Readonly<Record<ReleaseReason, number>> {
    return this.#releases;
  }

  /** Whether requests of different lengths may share a run, so that the next two mean something. */
  get pads(): boolean {
    return this.#config !== undefined && pads(this.#config);
  }

  /** Rows times length of all executions. */
  get batchElements(): number {
    return this.#elements;
  }

  /** How much of that was padding. */
  get paddedElements(): number {
    return this.#paddedElements;
  }

  /** By the rows of the whole execution. */
  get batchSizes(): ReadonlyMap<number, Readonly<BatchSizeStats>> {
    return this.#batchSizes;
  }

  #recordExecution(timings: Timings): void {
    this.#executions += 1;
    this.#releases[timings.release] += 1;
    this.#lastInferenceMs = Date.now();
    this.#elements += timings.elements ?? 0;
    this.#paddedElements += timings.paddedElements ?? 0;
    let size = this.#batchSizes.get(timings.batchSize);
    if (!size) {
      size = { executions: 0, computeInputNs: 0, computeInferNs: 0, computeOutputNs: 0 };
      this.#batchSizes.set(timings.batchSize, size);
    }
    size.executions += 1;
    size.computeInputNs += Math.round(timings.computeInputUs * 1000);
    size.computeInferNs += Math.round(timings.computeInferUs * 1000);
    size.computeOutputNs += Math.round(timings.computeOutputUs * 1000);
  }
}

/** Triton's failure reason of an error. INVALID_ARGUMENT can only come from the model here; see `recordFailure`. */
export function failureReasonOf(error: InferError): FailureReason {
  if (error.refusedAt === 'queue') return 'REJECTED';
  switch (error.code) {
    case 'RESOURCE_EXHAUSTED':
    case 'DEADLINE_EXCEEDED':
      return 'REJECTED';
    case 'CANCELLED':
      return 'CANCELED';
    case 'INTERNAL':
    case 'INVALID_ARGUMENT':
      return 'BACKEND';
    default:
      return 'OTHER';
  }
}
