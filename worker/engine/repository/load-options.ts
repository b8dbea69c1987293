import { realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import type { Devices } from '../../../shared/model/devices.ts';
import { gpuOptionsOf } from '../../../shared/model/gpu-options.ts';
import { normaliseModelConfig } from '../../../shared/model/normalise-config.ts';
import { sessionOptionsOf } from '../../../shared/model/ort-options.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import type { LoadOptions } from '../instance/instance.ts';

/**
 * How a config without problems wants its model file to be loaded.
 * @param file path of the model file
 * @param devices undefined where there is nothing but the CPU
 * @throws InferError INVALID_ARGUMENT for a library of operators that is not a file in the model's folder
 */
export async function loadOptionsOf(
  config: ModelConfig,
  modelPath: string,
  file: string,
  devices?: Devices,
): Promise<LoadOptions> {
  const customOpLibraries: string[] = [];
  for (const name of config.modelOperations?.opLibraryFilename ?? []) {
    customOpLibraries.push(await libraryPath(config.name, modelPath, name));
  }
  const gpu = devices && gpuOptionsOf(normaliseModelConfig(config, devices));
  return { path: file, ...sessionOptionsOf(config), customOpLibraries, ...(gpu && { gpu }) };
}

async function libraryPath(model: string, modelPath: string, name: string): Promise<string> {
  try {
    const root = await realpath(modelPath);
    const path = await realpath(join(root, name));
    if (path.startsWith(root + sep) && (await stat(path)).isFile()) return path;
    throw new Error('outside of the model folder, or no file');
  } catch (cause) {
    const expected = "expected a shared library inside the model's folder";
    const text = `model "${model}": model_operations.op_library_filename "${name}" is not there; ${expected}`;
    throw new InferError('INVALID_ARGUMENT', text, { cause });
  }
}
