import { readFile, realpath } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import { labelFilenames, parseLabels } from '../../../shared/model/create-ready-model.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';

/**
 * The labels of every `label_filename` of the config, by that name.
 * @throws InferError INVALID_ARGUMENT for a file that is not there or outside of the model folder.
 */
export async function readLabels(config: ModelConfig, modelPath: string): Promise<Map<string, readonly string[]>> {
  const labels = new Map<string, readonly string[]>();
  for (const filename of labelFilenames(config)) labels.set(filename, await readLabelFile(config, modelPath, filename));
  return labels;
}

async function readLabelFile(config: ModelConfig, modelPath: string, filename: string): Promise<string[]> {
  let text: string;
  try {
    const root = await realpath(modelPath);
    const path = await realpath(join(root, filename));
    if (!path.startsWith(root + sep)) throw new Error('outside of the model folder');
    text = await readFile(path, 'utf8');
  } catch (error) {
    const what = `label_filename "${filename}" cannot be read; expected a text file in the model's folder`;
    throw new InferError('INVALID_ARGUMENT', `model "${config.name}": ${what}`, { cause: error });
  }
  return parseLabels(text);
}
