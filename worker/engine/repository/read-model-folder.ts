import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { InferError } from '../../../shared/errors.ts';
import { parseModelConfig } from '../../../shared/model/parse-config.ts';
import { assertLoadable } from '../../../shared/model/prepare-config.ts';
import { resolveBackend } from '../../../shared/model/resolve-backend.ts';
import { chooseVersions, sortVersionDirectories } from '../../../shared/model/version-directories.ts';
import { type ModelConfig, ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelFolder } from './scan-repositories.ts';
import { isFolder } from './scan-repositories.ts';

const CONFIG_FILE = 'config.pbtxt';

/** What a model folder says before any model file is opened. */
export interface ModelSource {
  readonly name: string;
  readonly path: string;
  /** As written, its backend resolved; not completed from the model file yet. */
  readonly config: ModelConfig;
  /** Those to load, ascending. */
  readonly versions: readonly string[];
}

/** @throws InferError with the reason why the model cannot be loaded. */
export async function readModelFolder(folder: ModelFolder, logger: Logger): Promise<ModelSource> {
  const { name, path } = folder;
  const written = await readConfig(name, path);
  const available = await readVersions(name, path, logger);
  const firstVersion = available.toSorted()[0]; // by text, as Triton does
  const fileNames = firstVersion === undefined ? [] : await readdir(join(path, firstVersion));
  if (firstVersion === undefined) chooseVersions(written.versionPolicy, available, name); // says what is missing
  const config = resolveBackend(written, name, fileNames);
  assertLoadable(config);
  return { name, path, config, versions: chooseVersions(config.versionPolicy, available, name) };
}

/** A model without a config is completed from its file alone. */
async function readConfig(name: string, path: string): Promise<ModelConfig> {
  let text: string;
  try {
    text = await readFile(join(path, CONFIG_FILE), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return create(ModelConfigSchema);
    throw new InferError('INVALID_ARGUMENT', `model "${name}": ${CONFIG_FILE} cannot be read`, { cause: error });
  }
  return parseModelConfig(text, `${name}/${CONFIG_FILE}`);
}

async function readVersions(name: string, path: string, logger: Logger): Promise<readonly string[]> {
  const entries = await readdir(path);
  const folders: string[] = [];
  const files: string[] = [];
  for (const entry of entries) ((await isFolder(join(path, entry))) ? folders : files).push(entry);
  const { versions, ignored } = sortVersionDirectories(folders);
  const unexpected = [
    ...ignored.filter((entry) => looksLikeVersion(entry)),
    ...files.filter((entry) => /^[0-9]+$/.test(entry)),
  ];
  for (const entry of unexpected) logger.warn({ model: name, entry }, 'not a version folder, ignored');
  const filled: string[] = [];
  for (const version of versions) {
    if ((await readdir(join(path, version))).length > 0) filled.push(version);
    else logger.warn({ model: name, entry: version }, 'version folder is empty, ignored');
  }
  return filled;
}

/** Folders with other names (samples, `1_Pooling` of an export …) belong to the model and deserve no warning. */
function looksLikeVersion(entry: string): boolean {
  return /^\s*[-+]?v?\p{Nd}+(\.\p{Nd}+)?\s*$/iu.test(entry) || entry === 'model';
}
