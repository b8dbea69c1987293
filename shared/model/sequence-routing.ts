import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { sequenceBatchingOf } from './sequence-tensors.ts';

/** Finds the config of a model that is served; undefined for one that is not. Version '' is the one that its policy gives. */
export type FindConfig = (model: string, version: string) => ModelConfig | undefined;

/** Ensembles in ensembles, more than anybody has; the configs of a directory are not checked for circles. */
const MAX_DEPTH = 16;

/**
 * How long a sequence of the model may be silent, in ms; undefined for a model whose requests belong to no sequences. An
 * ensemble's do when those of a step do.
 */
export function sequenceIdleMs(config: ModelConfig, find: FindConfig, depth = 0): number | undefined {
  const batching = sequenceBatchingOf(config);
  if (batching) return Number(batching.maxSequenceIdleMicroseconds) / 1000;
  const { schedulingChoice: choice } = config;
  if (choice.case !== 'ensembleScheduling' || depth >= MAX_DEPTH) return undefined;
  let longestMs: number | undefined;
  for (const { modelName, modelVersion } of choice.value.step) {
    const member = find(modelName, modelVersion > 0n ? modelVersion.toString() : '');
    const idleMs = member && sequenceIdleMs(member, find, depth + 1);
    if (idleMs !== undefined) longestMs = Math.max(longestMs ?? 0, idleMs);
  }
  return longestMs;
}
