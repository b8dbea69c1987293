import { InferError } from '../../../shared/errors.ts';
import type { BatchingReport } from '../../../shared/infer/batching-report.ts';
import { type BatchSizeStats, ModelStats } from '../../../shared/infer/model-stats.ts';
import type { Services } from '../../service/services.ts';

type StatisticsSource = Pick<Services, 'catalog' | 'stats'>;

/**
 * The statistics of one version, of all served versions of a model (`version` ''), or of every model that is ready
 * (`name` ''). Keys are those of JSON, which are also the field names of the gRPC message; times are nanoseconds.
 * @throws InferError NOT_FOUND for an unknown model or version
 */
export function modelStatistics(source: StatisticsSource, name: string, version: string) {
  return { model_stats: statisticsOf(source, name, version).map(statisticsRow) };
}

/**
 * The same, and for models that batch what becomes of their requests, and what padding cost, under keys that the gRPC
 * message has not.
 * @throws InferError NOT_FOUND for an unknown model or version
 */
export function modelStatisticsWithBatching(source: StatisticsSource, name: string, version: string) {
  const rows = statisticsOf(source, name, version).map((stats) => ({
    ...statisticsRow(stats),
    ...(stats.batching && { batching: batchingRow(stats.batching) }),
    ...(stats.pads && { padding: { elements: stats.batchElements, padded_elements: stats.paddedElements } }),
  }));
  return { model_stats: rows };
}

function statisticsOf({ catalog, stats }: StatisticsSource, name: string, version: string): ModelStats[] {
  const known = new Map<string, ModelStats>();
  for (const one of stats()) known.set(keyOf(one.model, one.version), one);
  return chosen({ catalog }, name, version).map(
    ([model, one]) => known.get(keyOf(model, one)) ?? new ModelStats(model, one),
  );
}

function chosen(
  { catalog }: Pick<StatisticsSource, 'catalog'>,
  name: string,
  version: string,
): readonly (readonly [string, string])[] {
  if (name === '') {
    if (version !== '') throw new InferError('INVALID_ARGUMENT', 'a version needs the name of its model');
    return catalog
      .list()
      .flatMap((state) =>
        state.state === 'READY' && state.version !== undefined ? [[state.name, state.version] as const] : [],
      );
  }
  const model = catalog.resolve(name, version);
  const versions = version === '' ? model.versions : [model.version];
  return versions.map((one) => [model.name, one] as const);
}

function statisticsRow(stats: ModelStats) {
  return {
    name: stats.model,
    version: stats.version,
    last_inference: stats.lastInferenceMs,
    inference_count: stats.inferenceCount,
    execution_count: stats.executionCount,
    inference_stats: {
      success: stats.success,
      fail: stats.fail,
      queue: stats.queue,
      compute_input: stats.computeInput,
      compute_infer: stats.computeInfer,
      compute_output: stats.computeOutput,
      cache_hit: stats.cacheHit,
      cache_miss: stats.cacheMiss,
    },
    // Filled by models that answer a request several times, of which there are none.
    response_stats: {},
    batch_stats: [...stats.batchSizes].sort(([a], [b]) => a - b).map(batchRow),
    memory_usage: [],
  };
}

function batchRow([batchSize, stats]: readonly [number, Readonly<BatchSizeStats>]) {
  const { executions: count } = stats;
  return {
    batch_size: batchSize,
    compute_input: { count, ns: stats.computeInputNs },
    compute_infer: { count, ns: stats.computeInferNs },
    compute_output: { count, ns: stats.computeOutputNs },
  };
}

function batchingRow({ merges, maxRows, delayMs, auto, goalMs, reason, sizes, curve, company }: BatchingReport) {
  return {
    merges,
    max_rows: maxRows,
    delay_us: Math.round(delayMs * 1000),
    auto,
    ...(goalMs !== undefined && { slo_p99_ms: goalMs }),
    reason,
    ...(sizes && { sizes }),
    curve,
    ...(company && {
      company: {
        relative: company.relative,
        max_abs: company.maxAbs,
        cosine: company.cosine,
        tolerance: company.tolerance,
      },
    }),
  };
}

/** Names hold no slash, versions are digits. */
function keyOf(model: string, version: string): string {
  return `${model}/${version}`;
}
