import { InferError } from '../errors.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { type Graph, completeModelConfig, DEFAULT_MAX_BATCH_SIZE } from './complete-config.ts';
import { type Devices, NO_GPUS } from './devices.ts';
import { completeEnsembleConfig } from './ensemble-complete.ts';
import { parseEnsembleGraph } from './ensemble-graph.ts';
import { findMemberMisfits } from './ensemble-members.ts';
import { normaliseModelConfig } from './normalise-config.ts';
import type { ReadyModel } from './ready-model.ts';
import { validateBeforeLoad, validateModelConfig } from './validate-config.ts';
import { verifyModelConfig } from './verify-config.ts';

/**
 * What can be refused before the model file is opened: file names that lead out of the model's folder, options of the
 * session, fields that are not supported. The backend has been resolved.
 * @throws InferError INVALID_ARGUMENT that names the model and every problem.
 */
export function assertLoadable(config: ModelConfig, devices: Devices = NO_GPUS): void {
  assertNoProblems(config.name, validateBeforeLoad(normaliseModelConfig(config, devices), devices));
}

/**
 * From a config as written, its backend resolved, to one that can be trusted: completed from the model file, defaults
 * written down, checked on its own and against the file. Returns a new config.
 * @param autoComplete whether the file may fill in what the config leaves out; if not, the config has to say it all
 * @param defaultMaxBatchSize what completion sets for a model that can batch; 0 leaves batching off
 * @param devices what it may run on beside the CPU
 * @throws InferError INVALID_ARGUMENT that names the model and every problem.
 */
export function prepareModelConfig(
  config: ModelConfig,
  graph: Graph,
  autoComplete = true,
  defaultMaxBatchSize = DEFAULT_MAX_BATCH_SIZE,
  devices: Devices = NO_GPUS,
): ModelConfig {
  if (!autoComplete) assertNoProblems(config.name, whatIsLeftOut(config));
  const completed = autoComplete ? completeModelConfig(config, graph, defaultMaxBatchSize) : config;
  const prepared = normaliseModelConfig(completed, devices);
  assertNoProblems(prepared.name, validateModelConfig(prepared, devices));
  assertNoProblems(prepared.name, verifyModelConfig(prepared, graph));
  return prepared;
}

/**
 * The same for an ensemble, completed from and checked against the models of its steps, in their order.
 * @throws InferError INVALID_ARGUMENT that names the model and every problem.
 */
export function prepareEnsembleConfig(
  config: ModelConfig,
  models: readonly ReadyModel[],
  autoComplete = true,
): ModelConfig {
  if (!autoComplete) assertNoProblems(config.name, whatIsLeftOut(config));
  const graph = parseEnsembleGraph(config);
  const prepared = normaliseModelConfig(completeEnsembleConfig(config, graph, models));
  assertNoProblems(prepared.name, validateModelConfig(prepared));
  assertNoProblems(prepared.name, findMemberMisfits(prepared, graph, models));
  return prepared;
}

function whatIsLeftOut({ input, output, batchInput }: ModelConfig): string[] {
  const problems: string[] = [];
  if (input.length === 0 && batchInput.length === 0) problems.push('the config lists no input');
  if (output.length === 0) problems.push('the config lists no output');
  return problems.map((problem) => `${problem}, and auto-completion is switched off`);
}

/** @throws InferError INVALID_ARGUMENT that names the model and every problem. */
export function assertNoProblems(model: string, problems: readonly string[]): void {
  if (problems.length === 0) return;
  const texts = problems.length === 1 ? problems[0] : problems.map((text, index) => `${index + 1}) ${text}`).join('; ');
  const count = problems.length === 1 ? '' : `${problems.length} problems: `;
  throw new InferError('INVALID_ARGUMENT', `model "${model}": ${count}${texts ?? ''}`);
}
