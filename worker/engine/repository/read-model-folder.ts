import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { InferError } from '../../../shared/errors.ts';
import { isEnsemble } from '../../../shared/model/ensemble-graph.ts';
import { parseModelConfig } from '../../../shared/model/parse-config.ts';
import { assertLoadable } from '../../../shared/model/prepare-config.ts';
import { resolveBackend } from '../../../shared/model/resolve-backend.ts';
import { chooseVersions, sortVersionDirectories } from '../../../shared/model/version-directories.ts';
import { type ModelConfig, ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Backend } from '../instance/instance.ts';
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

export interface ReadOptions {
  /** Takes the place of config.pbtxt. */
  readonly config?: ModelConfig;
  /** `configs/<name>.pbtxt` of the model is read instead of config.pbtxt, where it is there. */
  readonly configName?: string;
}

/**
 * @param backend knows which GPUs there are; unless given, there is nothing but the CPU
 * @throws InferError with the reason why the model cannot be loaded.
 */
export async function readModelFolder(
  folder: Pick<ModelFolder, 'name' | 'path'>,
  logger: Logger,
  options: ReadOptions = {},
  backend: Pick<Backend, 'devices'> = {},
): Promise<ModelSource> {
  const { name, path } = folder;
  const written = options.config ?? (await readConfig(name, path, options.configName));
  const available = await readVersions(name, path, isEnsemble(written), logger);
  const firstVersion = available.toSorted()[0]; // by text, as Triton does
  const fileNames = firstVersion === undefined ? [] : await readdir(join(path, firstVersion));
  if (firstVersion === undefined) chooseVersions(written.versionPolicy, available, name); // says what is missing
  const config = resolveBackend(written, name, fileNames);
  assertLoadable(config, await backend.devices?.());
  return { name, path, config, versions: chooseVersions(config.versionPolicy, available, name) };
}

/** A model without a config is completed from its file alone. @throws InferError INVALID_ARGUMENT */
export async function readConfig(name: string, path: string, configName?: string): Promise<ModelConfig> {
  const file = await configFile(path, configName);
  let text: string;
  try {
    text = await readFile(join(path, file), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return create(ModelConfigSchema);
    throw new InferError('INVALID_ARGUMENT', `model "${name}": ${file} cannot be read`, { cause: error });
  }
  return parseModelConfig(text, `${name}/${file}`);
}

/** The highest version that has a folder, whatever the config may say; undefined when none has. */
export async function newestVersion(path: string): Promise<string | undefined> {
  const names = await readdir(path).catch(() => []); // no folder, no version
  return sortVersionDirectories(names).versions.at(-1);
}

export async function configFile(path: string, configName: string | undefined): Promise<string> {
  if (configName === undefined) return CONFIG_FILE;
  const file = join('configs', `${configName}.pbtxt`);
  const stats = await stat(join(path, file)).catch(() => undefined); // not there: the ordinary one serves
  return stats?.isFile() ? file : CONFIG_FILE;
}

export async function readVersions(
  name: string,
  path: string,
  mayBeEmpty: boolean,
  logger: Logger,
): Promise<readonly string[]> {
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
    if (mayBeEmpty || (await readdir(join(path, version))).length > 0) filled.push(version);
    else logger.warn({ model: name, entry: version }, 'version folder is empty, ignored');
  }
  return filled;
}

/** Folders with other names (samples, `1_Pooling` of an export …) belong to the model and deserve no warning. */
function looksLikeVersion(entry: string): boolean {
  return /^\s*[-+]?v?\p{Nd}+(\.\p{Nd}+)?\s*$/iu.test(entry) || entry === 'model';
}
