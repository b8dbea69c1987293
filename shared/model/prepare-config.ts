import { InferError } from '../errors.ts';
import type { ModelConfig } from '../proto/generated/model_config_pb.ts';
import { type Graph, completeModelConfig } from './complete-config.ts';
import { normaliseModelConfig } from './normalise-config.ts';
import { validateBeforeLoad, validateModelConfig } from './validate-config.ts';
import { verifyModelConfig } from './verify-config.ts';

/**
 * What can be refused before the model file is opened: file names that lead out of the model's folder, options of the
 * session, fields that are not supported. The backend has been resolved.
 * @throws InferError INVALID_ARGUMENT that names the model and every problem.
 */
export function assertLoadable(config: ModelConfig): void {
  assertNoProblems(config.name, validateBeforeLoad(normaliseModelConfig(config)));
}

/**
 * From a config as written, its backend resolved, to one that can be trusted: completed from the model file, defaults
 * written down, checked on its own and against the file. Returns a new config.
 * @throws InferError INVALID_ARGUMENT that names the model and every problem.
 */
export function prepareModelConfig(config: ModelConfig, graph: Graph): ModelConfig {
  const prepared = normaliseModelConfig(completeModelConfig(config, graph));
  assertNoProblems(prepared.name, validateModelConfig(prepared));
  assertNoProblems(prepared.name, verifyModelConfig(prepared, graph));
  return prepared;
}

function assertNoProblems(model: string, problems: readonly string[]): void {
  if (problems.length === 0) return;
  const texts = problems.length === 1 ? problems[0] : problems.map((text, index) => `${index + 1}) ${text}`).join('; ');
  const count = problems.length === 1 ? '' : `${problems.length} problems: `;
  throw new InferError('INVALID_ARGUMENT', `model "${model}": ${count}${texts ?? ''}`);
}
