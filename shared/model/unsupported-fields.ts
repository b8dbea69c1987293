import { create, equals } from '@bufbuild/protobuf';
import {
  type ModelConfig,
  ModelInstanceGroup_Kind as Kind,
  type ModelInstanceGroup,
  ModelOptimizationPolicy_CudaSchema,
  ModelOptimizationPolicy_ModelPriority,
  type ModelSequenceBatching_State,
} from '../proto/generated/model_config_pb.ts';
import { sequenceBatchingOf } from './sequence-tensors.ts';

/**
 * Fields that mean something in Triton and that this server does not act on. They are refused by name, never ignored.
 * Whoever teaches the server one of them deletes its row. Each row says where the field is used, '' for the whole model.
 */
const UNSUPPORTED: readonly { field: string; usedBy: (config: ModelConfig) => readonly string[] }[] = [
  {
    field: 'sequence_batching.iterative_sequence',
    usedBy: (c) => when(sequenceBatchingOf(c)?.iterativeSequence),
  },
  {
    field: 'use_same_buffer_for_input_output',
    usedBy: (c) => states(c, (state) => state.useSameBufferForInputOutput),
  },
  { field: 'use_growable_memory', usedBy: (c) => states(c, (state) => state.useGrowableMemory) },
  {
    field: 'allow_ragged_batch',
    usedBy: (c) => c.input.filter((i) => i.allowRaggedBatch).map((i) => quote('input', i)),
  },
  { field: 'batch_input', usedBy: (c) => when(c.batchInput.length > 0) },
  { field: 'batch_output', usedBy: (c) => when(c.batchOutput.length > 0) },
  { field: 'kind: KIND_GPU', usedBy: (c) => groups(c, (group) => group.kind === Kind.GPU) },
  { field: 'kind: KIND_MODEL', usedBy: (c) => groups(c, (group) => group.kind === Kind.MODEL) },
  { field: 'rate_limiter', usedBy: (c) => groups(c, (group) => hasRateLimiter(group)) },
  { field: 'passive', usedBy: (c) => groups(c, (group) => group.passive) },
  { field: 'secondary_devices', usedBy: (c) => groups(c, (group) => group.secondaryDevices.length > 0) },
  { field: 'host_policy', usedBy: (c) => groups(c, (group) => group.hostPolicy !== '') },
  { field: 'optimization.priority', usedBy: (c) => when(hasOptimizationPriority(c)) },
  { field: 'optimization.cuda', usedBy: (c) => when(hasCudaOptions(c)) },
  { field: 'optimization.execution_accelerators', usedBy: (c) => when(hasAccelerators(c)) },
  {
    field: 'optimization.gather_kernel_buffer_threshold',
    usedBy: (c) => when(c.optimization?.gatherKernelBufferThreshold),
  },
  { field: 'optimization.eager_batching', usedBy: (c) => when(c.optimization?.eagerBatching) },
  { field: 'model_warmup', usedBy: (c) => when(c.modelWarmup.length > 0) },
  { field: 'model_operations', usedBy: (c) => when(c.modelOperations?.opLibraryFilename.length) },
  { field: 'model_transaction_policy.decoupled', usedBy: (c) => when(c.modelTransactionPolicy?.decoupled) },
  { field: 'model_repository_agents', usedBy: (c) => when(c.modelRepositoryAgents?.agents.length) },
  { field: 'runtime', usedBy: (c) => when(c.runtime !== '') },
  { field: 'model_metrics', usedBy: (c) => when(c.modelMetrics?.metricControl.length) },
  { field: 'metric_tags', usedBy: (c) => when(Object.keys(c.metricTags).length > 0) },
];

/** One text for each field of the config that this server would have to ignore. */
export function findUnsupportedFields(config: ModelConfig): string[] {
  const problems: string[] = [];
  for (const { field, usedBy } of UNSUPPORTED) {
    for (const where of usedBy(config)) {
      problems.push(`${where === '' ? '' : `${where}: `}${field} is not supported yet`);
    }
  }
  return problems;
}

function when(used: boolean | number | bigint | undefined): readonly string[] {
  return used ? [''] : [];
}

function quote(kind: string, { name }: { name: string }): string {
  return `${kind} "${name}"`;
}

function groups(config: ModelConfig, uses: (group: ModelInstanceGroup) => boolean): string[] {
  return config.instanceGroup.filter(uses).map((group) => quote('instance_group', group));
}

function states(config: ModelConfig, uses: (state: ModelSequenceBatching_State) => boolean): string[] {
  const used = sequenceBatchingOf(config)?.state.filter(uses) ?? [];
  return used.map(({ inputName }) => `sequence_batching: state "${inputName}"`);
}

function hasRateLimiter(group: ModelInstanceGroup): boolean {
  const limiter = group.rateLimiter;
  return limiter !== undefined && (limiter.resources.length > 0 || limiter.priority > 1);
}

function hasOptimizationPriority(config: ModelConfig): boolean {
  const priority = config.optimization?.priority;
  return priority !== undefined && priority !== ModelOptimizationPolicy_ModelPriority.PRIORITY_DEFAULT;
}

function hasCudaOptions(config: ModelConfig): boolean {
  const cuda = config.optimization?.cuda;
  const none = create(ModelOptimizationPolicy_CudaSchema);
  return cuda !== undefined && !equals(ModelOptimizationPolicy_CudaSchema, cuda, none);
}

function hasAccelerators(config: ModelConfig): boolean {
  const accelerators = config.optimization?.executionAccelerators;
  if (!accelerators) return false;
  return accelerators.gpuExecutionAccelerator.length + accelerators.cpuExecutionAccelerator.length > 0;
}
