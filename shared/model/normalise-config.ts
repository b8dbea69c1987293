import { clone, create } from '@bufbuild/protobuf';
import {
  type ModelConfig,
  ModelConfigSchema,
  ModelInstanceGroup_Kind,
  ModelInstanceGroupSchema,
  ModelOptimizationPolicy_PinnedMemoryBufferSchema,
  ModelOptimizationPolicySchema,
  ModelVersionPolicy_LatestSchema,
  ModelVersionPolicySchema,
} from '../proto/generated/model_config_pb.ts';
import { type Devices, NO_GPUS } from './devices.ts';

/** What Triton gives a model of ONNX Runtime on the CPU that does not say how many instances it wants. */
const DEFAULT_CPU_INSTANCES = 2;

const DEFAULT_SEQUENCE_IDLE_US = 1_000_000n;

/**
 * Writes down the defaults that Triton shows in the config of a loaded model. Returns a new config.
 * @param devices what KIND_AUTO may become, and which GPUs a group means that lists none
 */
export function normaliseModelConfig(config: ModelConfig, devices: Devices = NO_GPUS): ModelConfig {
  const normalised = clone(ModelConfigSchema, config);
  normaliseVersionPolicy(normalised);
  normaliseScheduling(normalised);
  if (normalised.schedulingChoice.case !== 'ensembleScheduling') {
    normalisePinnedMemory(normalised);
    normaliseInstanceGroups(normalised, devices);
  }
  return normalised;
}

function normaliseVersionPolicy(config: ModelConfig): void {
  config.versionPolicy ??= create(ModelVersionPolicySchema);
  const choice = config.versionPolicy.policyChoice;
  if (choice.case === undefined) {
    const latest = create(ModelVersionPolicy_LatestSchema, { numVersions: 1 });
    config.versionPolicy.policyChoice = { case: 'latest', value: latest };
  } else if (choice.case === 'latest' && choice.value.numVersions === 0) {
    choice.value.numVersions = 1;
  }
}

function normaliseScheduling(config: ModelConfig): void {
  const choice = config.schedulingChoice;
  if (choice.case === 'dynamicBatching') {
    preferWholeBatches(choice.value.preferredBatchSize, config.maxBatchSize);
  } else if (choice.case === 'sequenceBatching') {
    if (choice.value.maxSequenceIdleMicroseconds === 0n) {
      choice.value.maxSequenceIdleMicroseconds = DEFAULT_SEQUENCE_IDLE_US;
    }
    const strategy = choice.value.strategyChoice;
    if (strategy.case === 'oldest') preferWholeBatches(strategy.value.preferredBatchSize, config.maxBatchSize);
  }
}

function preferWholeBatches(preferred: number[], maxBatchSize: number): void {
  if (preferred.length === 0 && maxBatchSize > 0) preferred.push(maxBatchSize);
}

function normalisePinnedMemory(config: ModelConfig): void {
  config.optimization ??= create(ModelOptimizationPolicySchema);
  config.optimization.inputPinnedMemory ??= create(ModelOptimizationPolicy_PinnedMemoryBufferSchema, { enable: true });
  config.optimization.outputPinnedMemory ??= create(ModelOptimizationPolicy_PinnedMemoryBufferSchema, { enable: true });
}

/**
 * As in Triton, KIND_AUTO becomes GPUs where there are any, else the CPU, and a group without a list means each GPU. GPUs
 * that are listed stay, for validation to refuse.
 */
function normaliseInstanceGroups(config: ModelConfig, { gpus }: Devices): void {
  if (config.instanceGroup.length === 0) {
    config.instanceGroup.push(create(ModelInstanceGroupSchema, { name: config.name }));
  }
  for (const [index, group] of config.instanceGroup.entries()) {
    group.name ||= `${config.name}_${index}`;
    if (group.kind === ModelInstanceGroup_Kind.AUTO) {
      group.kind = gpus.length > 0 ? ModelInstanceGroup_Kind.GPU : ModelInstanceGroup_Kind.CPU;
    }
    if (group.kind === ModelInstanceGroup_Kind.GPU && group.gpus.length === 0) group.gpus.push(...gpus);
    if (group.count < 1) {
      group.count = group.kind === ModelInstanceGroup_Kind.CPU ? DEFAULT_CPU_INSTANCES : 1;
    }
  }
}
