import { InferError } from '../../../shared/errors.ts';
import { type BatchSizeStats, ModelStats } from '../../../shared/infer/model-stats.ts';
import type { Services } from '../../service/services.ts';

type StatisticsSource = Pick<Services, 'catalog' | 'stats'>;

/**
 * The statistics of one version, of all served versions of a model (`version` ''), or of every model that is ready
 * (`name` ''). Keys are those of JSON, which are also the field names of the gRPC message; times are nanoseconds.
 * @throws InferError NOT_FOUND for an unknown model or version
 */
export function modelStatistics({ catalog, stats }: StatisticsSource, name: string, version: string) {
  const known = new Map<string, ModelStats>();
  for (const one of stats()) known.set(keyOf(one.model, one.version), one);
  const rows = chosen({ catalog }, name, version).map(([model, one]) =>
    statisticsRow(known.get(keyOf(model, one)) ?? new ModelStats(model, one)),
  );
  return { model_stats: rows };
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

/** Names hold no slash, versions are digits. */
function keyOf(model: string, version: string): string {
  return `${model}/${version}`;
}
