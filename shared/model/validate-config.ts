import {
  type ModelConfig,
  type ModelDynamicBatching,
  ModelInput_Format,
  type ModelInput,
  type ModelOutput,
  ModelQueuePolicy_TimeoutAction,
  type ModelQueuePolicy,
} from '../proto/generated/model_config_pb.ts';
import { findTrafficProblems } from '../traffic/traffic-config.ts';
import { findBatchParameterProblems, findBatchSettingProblems } from './batch-parameters.ts';
import { type Devices, NO_GPUS } from './devices.ts';
import { canReshape, formatDims, problemOfDims } from './dims.ts';
import { isEnsemble } from './ensemble-graph.ts';
import { findEnsembleProblems } from './ensemble-problems.ts';
import { leadsOutside } from './inside-folder.ts';
import { findInstanceGroupProblems } from './instance-group-problems.ts';
import { findMetricProblems } from './metric-settings.ts';
import { findPaddingProblems } from './padding-problems.ts';
import { findQueueParameterProblems } from './queue-parameters.ts';
import { findSequenceProblems } from './sequence-problems.ts';
import { sequenceBatchingOf } from './sequence-tensors.ts';
import { validateOrtOptions } from './ort-options.ts';
import { findUnknownEnums } from './unknown-enums.ts';
import { findUnsupportedFields } from './unsupported-fields.ts';
import { findWarmupProblems } from './warmup-problems.ts';

/** What is wrong with a normalised config whatever the model file may hold: all that can be told before it is opened. */
export function validateBeforeLoad(config: ModelConfig, devices: Devices = NO_GPUS): string[] {
  const problems = findUnknownEnums(config);
  checkFilename(problems, 'default_model_filename', config.defaultModelFilename);
  for (const output of config.output) {
    checkFilename(problems, `output "${output.name}": label_filename`, output.labelFilename);
  }
  for (const { inputName, initialState } of sequenceBatchingOf(config)?.state ?? []) {
    for (const { stateData } of initialState) {
      if (stateData.case !== 'dataFile') continue;
      checkFilename(problems, `sequence_batching: state "${inputName}": data_file`, stateData.value);
    }
  }
  for (const [capability, name] of Object.entries(config.ccModelFilenames)) {
    checkFilename(problems, `cc_model_filenames "${capability}"`, name);
  }
  for (const name of config.modelOperations?.opLibraryFilename ?? []) {
    checkFilename(problems, 'model_operations.op_library_filename', name);
    if (name === '') problems.push('model_operations.op_library_filename: expected the name of a file, got ""');
  }
  problems.push(...findInstanceGroupProblems(config, devices), ...findMetricProblems(config));
  problems.push(...(isEnsemble(config) ? findEnsembleProblems(config) : validateOrtOptions(config)));
  if (config.responseCache?.enable && config.modelTransactionPolicy?.decoupled) {
    problems.push('response_cache does not go with model_transaction_policy.decoupled');
  }
  problems.push(...findTrafficProblems(config), ...findBatchParameterProblems(config));
  problems.push(...findQueueParameterProblems(config));
  problems.push(...findUnsupportedFields(config, devices));
  return problems;
}

/** Problems of a completed and normalised config on its own, one text each; none means that it can be trusted. */
export function validateModelConfig(config: ModelConfig, devices: Devices = NO_GPUS): string[] {
  const problems = validateBeforeLoad(config, devices);
  if (config.maxBatchSize < 0) problems.push(`max_batch_size: expected 0 or more, got ${config.maxBatchSize}`);
  checkTensors(problems, 'input', config.input);
  checkTensors(problems, 'output', config.output);
  for (const input of config.input) checkFormat(problems, input);
  checkVersionPolicy(problems, config);
  if (config.schedulingChoice.case === 'dynamicBatching') {
    checkDynamicBatching(problems, config.schedulingChoice.value, config.maxBatchSize);
  }
  problems.push(...findBatchSettingProblems(config), ...findWarmupProblems(config), ...findPaddingProblems(config));
  const sequences = sequenceBatchingOf(config);
  if (sequences) problems.push(...findSequenceProblems(config, sequences));
  return problems;
}

function checkTensors(problems: string[], kind: string, tensors: readonly (ModelInput | ModelOutput)[]): void {
  const names = new Set<string>();
  for (const [index, tensor] of tensors.entries()) {
    if (tensor.name === '') problems.push(`${kind} ${index}: name is missing`);
    const where = tensor.name === '' ? `${kind} ${index}` : `${kind} "${tensor.name}"`;
    if (tensor.name !== '' && names.has(tensor.name)) problems.push(`${where} is listed twice`);
    names.add(tensor.name);
    if (tensor.dataType === 0) problems.push(`${where}: data_type is missing`);
    checkShape(problems, where, tensor);
    if (tensor.isShapeTensor) problems.push(`${where}: is_shape_tensor is for TensorRT models only`);
    if (tensor.isNonLinearFormatIo) problems.push(`${where}: is_non_linear_format_io is for TensorRT models only`);
  }
}

function checkShape(problems: string[], where: string, tensor: ModelInput | ModelOutput): void {
  // No dims are a scalar's. Where they were forgotten, verify-config.ts says which ones the model file has.
  const dims = problemOfDims(tensor.dims);
  if (dims !== undefined) problems.push(`${where}: dims ${formatDims(tensor.dims)}: ${dims}`);
  if (!tensor.reshape) return;
  const reshape = problemOfDims(tensor.reshape.shape);
  if (reshape !== undefined) problems.push(`${where}: reshape ${formatDims(tensor.reshape.shape)}: ${reshape}`);
  if (dims !== undefined || reshape !== undefined) return;
  if (!canReshape(tensor.dims, tensor.reshape.shape)) {
    const both = `dims ${formatDims(tensor.dims)} and reshape ${formatDims(tensor.reshape.shape)}`;
    problems.push(`${where}: ${both} do not hold equally many elements`);
  }
}

function checkFormat(problems: string[], input: ModelInput): void {
  if (input.format === ModelInput_Format.NONE || input.dims.length === 3) return;
  const format = ModelInput_Format.NHWC === input.format ? 'FORMAT_NHWC' : 'FORMAT_NCHW';
  problems.push(`input "${input.name}": ${format} needs 3 dims, got ${formatDims(input.dims)}`);
}

/** Files are looked up inside the model's folder and nowhere else. */
function checkFilename(problems: string[], field: string, name: string): void {
  if (leadsOutside(name))
    problems.push(`${field}: expected the name of a file inside the model's folder, got "${name}"`);
}

function checkVersionPolicy(problems: string[], config: ModelConfig): void {
  const choice = config.versionPolicy?.policyChoice;
  if (choice?.case !== 'specific') return;
  if (choice.value.versions.length === 0) problems.push('version_policy: specific lists no versions');
  for (const version of choice.value.versions) {
    if (version < 1n) problems.push(`version_policy: expected version numbers from 1 up, got ${version.toString()}`);
  }
}

function checkDynamicBatching(problems: string[], batching: ModelDynamicBatching, maxBatchSize: number): void {
  for (const size of batching.preferredBatchSize) {
    if (size >= 1 && size <= maxBatchSize) continue;
    const expected = `sizes from 1 to max_batch_size (${maxBatchSize})`;
    problems.push(`dynamic_batching.preferred_batch_size: expected ${expected}, got ${size}`);
  }
  const policies = Object.entries(batching.priorityQueuePolicy);
  checkPriorityLevels(problems, batching, policies);
  if (!batching.preserveOrdering) return;
  if (batching.priorityLevels > 1n) {
    problems.push('dynamic_batching: preserve_ordering does not go with more than one priority level');
  }
  if (
    policies.some(([, policy]) => delays(policy)) ||
    (batching.defaultQueuePolicy && delays(batching.defaultQueuePolicy))
  ) {
    problems.push('dynamic_batching: preserve_ordering does not go with timeout_action DELAY');
  }
}

function checkPriorityLevels(
  problems: string[],
  batching: ModelDynamicBatching,
  policies: readonly (readonly [string, ModelQueuePolicy])[],
): void {
  const levels = batching.priorityLevels;
  const level = batching.defaultPriorityLevel;
  if (levels === 0n) {
    if (level > 0n) problems.push('dynamic_batching: default_priority_level means nothing without priority_levels');
    if (policies.length > 0) {
      problems.push('dynamic_batching: priority_queue_policy means nothing without priority_levels');
    }
    return;
  }
  const expected = `a level from 1 to priority_levels (${levels.toString()})`;
  if (level < 1n || level > levels) {
    problems.push(`dynamic_batching.default_priority_level: expected ${expected}, got ${level.toString()}`);
  }
  for (const [key] of policies) {
    if (BigInt(key) >= 1n && BigInt(key) <= levels) continue;
    problems.push(`dynamic_batching.priority_queue_policy: expected ${expected} as key, got ${key}`);
  }
}

function delays(policy: ModelQueuePolicy): boolean {
  return policy.timeoutAction === ModelQueuePolicy_TimeoutAction.DELAY && policy.defaultTimeoutMicroseconds > 0n;
}
