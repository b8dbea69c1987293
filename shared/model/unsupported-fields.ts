import { create, equals } from '@bufbuild/protobuf';
import {
  type ModelConfig,
  ModelInstanceGroup_Kind as Kind,
  type ModelInstanceGroup,
  ModelOptimizationPolicy_CudaSchema,
  ModelOptimizationPolicy_ModelPriority,
  type ModelSequenceBatching_State,
} from '../proto/generated/model_config_pb.ts';
import { type Devices, NO_GPUS } from './devices.ts';
import { findGpuOnlyProblems, findGpuOptionProblems, gpuOptionsOf } from './gpu-options.ts';
import { sequenceBatchingOf } from './sequence-tensors.ts';

interface UnsupportedField {
  readonly field: string;
  /** Why, and what to do instead. */
  readonly why: string;
  /** Where the field is used, '' for the whole model. */
  readonly usedBy: (config: ModelConfig) => readonly string[];
}

const NO_GPU = 'it is for models on a GPU, and models run on the CPU here; remove it';
const PAD_INSTEAD =
  'inputs of different lengths do not share a run as they are; declare padding.inputs in parameters, or leave their runs apart';

/**
 * Fields that mean something in Triton and that this server does not act on. They are refused by name, never ignored.
 * Whoever teaches the server one of them deletes its row.
 */
const UNSUPPORTED: readonly UnsupportedField[] = [
  {
    field: 'sequence_batching.iterative_sequence',
    why: 'a model gives one response to each request; remove it',
    usedBy: (c) => when(sequenceBatchingOf(c)?.iterativeSequence),
  },
  {
    field: 'use_same_buffer_for_input_output',
    why: 'input and output state are never one memory; remove it',
    usedBy: (c) => states(c, (state) => state.useSameBufferForInputOutput),
  },
  { field: 'use_growable_memory', why: NO_GPU, usedBy: (c) => states(c, (state) => state.useGrowableMemory) },
  {
    field: 'allow_ragged_batch',
    why: PAD_INSTEAD,
    usedBy: (c) => c.input.filter((i) => i.allowRaggedBatch).map((i) => quote('input', i)),
  },
  { field: 'batch_input', why: PAD_INSTEAD, usedBy: (c) => when(c.batchInput.length > 0) },
  { field: 'batch_output', why: PAD_INSTEAD, usedBy: (c) => when(c.batchOutput.length > 0) },
  {
    field: 'kind: KIND_MODEL',
    why: 'an ONNX model does not place itself; set kind: KIND_CPU, or leave it out',
    usedBy: (c) => groups(c, (group) => group.kind === Kind.MODEL),
  },
  {
    field: 'secondary_devices',
    why: 'there is no other device to run on; remove it',
    usedBy: (c) => groups(c, (group) => group.secondaryDevices.length > 0),
  },
  {
    field: 'host_policy',
    why: 'runs are not bound to processors; start the server under numactl or taskset instead',
    usedBy: (c) => groups(c, (group) => group.hostPolicy !== ''),
  },
  {
    field: 'optimization.priority',
    why: 'a model has no priority over others; see rate_limiter for one between instances',
    usedBy: (c) => when(hasOptimizationPriority(c)),
  },
  { field: 'optimization.cuda', why: NO_GPU, usedBy: (c) => when(hasCudaOptions(c)) },
  {
    field: 'optimization.execution_accelerators.gpu_execution_accelerator',
    why: NO_GPU,
    usedBy: (c) => when(!runsOnGpu(c) && c.optimization?.executionAccelerators?.gpuExecutionAccelerator.length),
  },
  {
    field: 'optimization.execution_accelerators.cpu_execution_accelerator',
    why: "ONNX Runtime's own CPU kernels are what there is; remove it",
    usedBy: (c) => when(c.optimization?.executionAccelerators?.cpuExecutionAccelerator.length),
  },
  {
    field: 'optimization.gather_kernel_buffer_threshold',
    why: NO_GPU,
    usedBy: (c) => when(c.optimization?.gatherKernelBufferThreshold),
  },
  {
    field: 'optimization.eager_batching',
    why: 'a batch is put together when its run begins; remove it',
    usedBy: (c) => when(c.optimization?.eagerBatching),
  },
  {
    field: 'model_transaction_policy.decoupled',
    why: 'an ONNX model gives exactly one response to each request; remove it',
    usedBy: (c) => when(c.modelTransactionPolicy?.decoupled),
  },
  {
    field: 'model_repository_agents',
    why: 'there are none; decrypt or check the files before they come into the repository',
    usedBy: (c) => when(c.modelRepositoryAgents?.agents.length),
  },
  {
    field: 'runtime',
    why: 'there is one runtime for each backend; remove it',
    usedBy: (c) => when(c.runtime !== ''),
  },
];

/** One text for each field of the config that this server would have to ignore. */
export function findUnsupportedFields(config: ModelConfig, devices: Devices = NO_GPUS): string[] {
  const problems = devices.gpus.length > 0 ? [] : gpuKinds(config, devices);
  problems.push(...findGpuOnlyProblems(config, devices), ...(runsOnGpu(config) ? findGpuOptionProblems(config) : []));
  for (const { field, why, usedBy } of UNSUPPORTED) {
    for (const where of usedBy(config)) {
      problems.push(`${where === '' ? '' : `${where}: `}${field} is not supported: ${why}`);
    }
  }
  return problems;
}

/** KIND_GPU where no GPU works. */
function gpuKinds(config: ModelConfig, { installed, reason }: Devices): string[] {
  const instead = 'set kind: KIND_CPU, or leave kind and gpus out';
  const why = installed ? reason : `models run on the CPU here, as ${reason}`;
  const used = groups(config, (group) => group.kind === Kind.GPU);
  return used.map((where) => `${where}: kind: KIND_GPU is not supported: ${why}; ${instead}`);
}

function runsOnGpu(config: ModelConfig): boolean {
  return gpuOptionsOf(config) !== undefined;
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

function hasOptimizationPriority(config: ModelConfig): boolean {
  const priority = config.optimization?.priority;
  return priority !== undefined && priority !== ModelOptimizationPolicy_ModelPriority.PRIORITY_DEFAULT;
}

function hasCudaOptions(config: ModelConfig): boolean {
  const cuda = config.optimization?.cuda;
  const none = create(ModelOptimizationPolicy_CudaSchema);
  return cuda !== undefined && !equals(ModelOptimizationPolicy_CudaSchema, cuda, none);
}
