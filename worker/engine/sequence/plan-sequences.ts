import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { sequenceBatchingOf } from '../../../shared/model/sequence-tensors.ts';
import type { ModelSequenceBatching } from '../../../shared/proto/generated/model_config_pb.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { readInitialStates } from './initial-states.ts';
import type { Strategy } from './sequence-lane.ts';
import { createSequencePlan } from './sequence-plan.ts';
import type { SequenceOptions } from './sequence-scheduler.ts';

/** What a scheduler of sequences needs beside what every scheduler does. */
export type PlannedSequences = Pick<
  SequenceOptions,
  'plan' | 'strategy' | 'preserveOrdering' | 'maxIdleMs' | 'initialStates'
>;

/**
 * Works out how the sequences of a model are run; undefined for a model without them. Its config has been normalised and
 * validated, and `run` says how many rows a run may have.
 * @throws InferError INVALID_ARGUMENT when an initial state cannot be read.
 */
export async function planSequences(
  ready: ReadyModel,
  modelPath: string,
  run: ModelPlan,
): Promise<PlannedSequences | undefined> {
  const batching = sequenceBatchingOf(ready.config);
  if (!batching) return undefined;
  const { strategyChoice, maxSequenceIdleMicroseconds } = batching;
  const slots = Math.max(1, ready.maxBatchSize);
  return {
    plan: createSequencePlan(ready, run.contract.batchNote),
    strategy: strategyOf(batching, run.maxRows, slots),
    preserveOrdering: strategyChoice.case === 'oldest' && strategyChoice.value.preserveOrdering,
    maxIdleMs: Number(maxSequenceIdleMicroseconds) / 1000,
    initialStates: await readInitialStates(ready.config, modelPath),
  };
}

/** Without a choice it is `direct`, as in Triton. */
function strategyOf({ strategyChoice }: ModelSequenceBatching, maxRows: number, slots: number): Strategy {
  if (strategyChoice.case === 'oldest') {
    const { maxCandidateSequences, preferredBatchSize, maxQueueDelayMicroseconds } = strategyChoice.value;
    const preferredRows = [...new Set(preferredBatchSize.filter((rows) => rows <= maxRows))].sort((a, b) => a - b);
    const limits = { maxRows, preferredRows, delayMs: Number(maxQueueDelayMicroseconds) / 1000 };
    return { kind: 'oldest', slots: maxCandidateSequences || slots, limits };
  }
  const direct = strategyChoice.case === 'direct' ? strategyChoice.value : undefined;
  return {
    kind: 'direct',
    limits: {
      slots,
      maxRows,
      minimumUtilization: direct?.minimumSlotUtilization ?? 0,
      delayMs: Number(direct?.maxQueueDelayMicroseconds ?? 0n) / 1000,
    },
  };
}
