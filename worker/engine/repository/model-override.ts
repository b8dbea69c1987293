import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fromJsonString } from '@bufbuild/protobuf';
import { InferError } from '../../../shared/errors.ts';
import { type ModelConfig, ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import { shownText } from '../../../shared/tensor/text.ts';

/** Of the parser's own words, which say the field first and what is wrong with it last. */
const MAX_REASON = 400;

/**
 * Reads the config that a load brings along.
 * @throws InferError INVALID_ARGUMENT for anything that is not the JSON of a model config.
 */
export function parseConfigOverride(model: string, text: string): ModelConfig {
  try {
    return fromJsonString(ModelConfigSchema, text);
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    const expected = 'config must be the JSON of a model config';
    throw new InferError('INVALID_ARGUMENT', `model "${model}": ${expected}: ${shownText(what, MAX_REASON)}`, {
      cause: error,
    });
  }
}

/**
 * Whoever may load models must not be able to bring native code along.
 * @throws InferError INVALID_ARGUMENT for the config of a load with files that names libraries of operators.
 */
export function assertNoLibraries({ name, modelOperations }: ModelConfig): void {
  if (!modelOperations || modelOperations.opLibraryFilename.length === 0) return;
  const text = 'model_operations does not go with a load that brings files; put the model into the repository';
  throw new InferError('INVALID_ARGUMENT', `model "${name}": ${text}`);
}

/** A model's folder that exists for one load. */
export interface TemporaryFolder {
  readonly path: string;
  readonly remove: () => Promise<void>;
}

/**
 * Writes files that a load brings along into a folder of their own. Their paths have been checked.
 * @throws InferError INTERNAL when the system does not let it.
 */
export async function writeTemporaryFolder(
  model: string,
  files: ReadonlyMap<string, Uint8Array>,
): Promise<TemporaryFolder> {
  const path = await mkdtemp(join(tmpdir(), 'millrace-model-'));
  const remove = () => rm(path, { recursive: true, force: true });
  try {
    for (const [name, bytes] of files) {
      await mkdir(dirname(join(path, name)), { recursive: true });
      await writeFile(join(path, name), bytes);
    }
  } catch (error) {
    await remove();
    const text = `model "${model}": the files of the load cannot be written`;
    throw new InferError('INTERNAL', text, { cause: error });
  }
  return { path, remove };
}

/** @throws InferError INVALID_ARGUMENT for a path that is not one inside a model's folder. */
export function assertInside(model: string, path: string): void {
  const parts = path.split('/');
  const fine = parts.every((part) => part !== '' && part !== '.' && part !== '..') && !/[\\\0]/.test(path);
  if (fine) return;
  const expected = 'expected a path inside the model, like "1/model.onnx"';
  throw new InferError('INVALID_ARGUMENT', `model "${model}": file:${shownText(path)}: ${expected}`);
}
