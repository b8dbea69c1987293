import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { InferError } from '../../../shared/errors.ts';
import { isEnsemble } from '../../../shared/model/ensemble-graph.ts';
import { completeModelConfig, type Graph } from '../../../shared/model/complete-config.ts';
import type { Devices } from '../../../shared/model/devices.ts';
import { listConfigErrors } from '../../../shared/model/list-config-errors.ts';
import { normaliseModelConfig } from '../../../shared/model/normalise-config.ts';
import { resolveBackend } from '../../../shared/model/resolve-backend.ts';
import { findRepairs } from '../../../shared/model/suggest-repair.ts';
import { validateBeforeLoad, validateModelConfig } from '../../../shared/model/validate-config.ts';
import type { Misfit } from '../../../shared/model/verify-config.ts';
import { chooseVersions } from '../../../shared/model/version-directories.ts';
import { type ModelConfig, ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Backend, LoadedModel } from '../../../worker/engine/instance/instance.ts';
import { modelFile } from '../../../worker/engine/repository/load-version.ts';
import { configFile, readVersions } from '../../../worker/engine/repository/read-model-folder.ts';
import { readLabels } from '../../../worker/engine/repository/read-labels.ts';
import { loadOptionsOf } from '../../../worker/engine/repository/load-options.ts';
import type { ModelFolder } from '../../../worker/engine/repository/scan-repositories.ts';
import { ConfigPlaces, type Problem, splitFix } from './problem.ts';

/** What a model folder holds and all that is wrong with it. */
export interface Examination {
  readonly problems: readonly Problem[];
  /** Those that are there, and those of them that the policy picks; ascending. */
  readonly available: readonly string[];
  readonly versions: readonly string[];
  /** As config.pbtxt says it; undefined when it cannot be read. */
  readonly written: ModelConfig | undefined;
  /** Completed from the newest model file and normalised; undefined when it did not get so far. */
  readonly completed: ModelConfig | undefined;
}

export interface ExamineOptions {
  /** Opens the model files; without one, none is opened. */
  readonly backend: Backend | undefined;
  readonly logger: Logger;
  /** `configs/<name>.pbtxt` is read instead of config.pbtxt, where it is there. */
  readonly configName: string | undefined;
  /** Why a server would not load the model, which is what is wrong where nothing else is found. */
  readonly refusal: InferError | undefined;
}

/**
 * Looks for everything that is wrong with a model, where a server stops at the first problem: reads the config, opens the
 * file of each version that would be served and compares them. Nothing is run.
 */
export async function examineModel(folder: ModelFolder, options: ExamineOptions): Promise<Examination> {
  const examiner = new Examiner(folder, options);
  const { refusal } = options;
  try {
    await examiner.examine();
  } catch (error) {
    examiner.note(InferError.from(error, error instanceof Error ? error.message : String(error)));
  }
  if (refusal && examiner.problems.length === 0) examiner.note(refusal);
  return examiner;
}

class Examiner implements Examination {
  readonly problems: Problem[] = [];
  available: readonly string[] = [];
  versions: readonly string[] = [];
  written: ModelConfig | undefined;
  completed: ModelConfig | undefined;
  readonly #folder: ModelFolder;
  readonly #options: ExamineOptions;
  #configFile: string;
  #places: ConfigPlaces;

  constructor(folder: ModelFolder, options: ExamineOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#configFile = join(folder.path, 'config.pbtxt');
    this.#places = new ConfigPlaces(this.#configFile, '');
  }

  async examine(): Promise<void> {
    const { name, path, conflict } = this.#folder;
    if (conflict !== '') {
      this.#add({ message: conflict });
      return;
    }
    this.#configFile = join(path, await configFile(path, this.#options.configName));
    const written = await this.#readConfig();
    if (!written) return;
    this.written = written;
    this.available = await readVersions(name, path, isEnsemble(written), this.#options.logger);
    this.#noteErrorOf(['version_policy'], () => {
      this.versions = chooseVersions(written.versionPolicy, this.available, name);
    });
    const resolved = await this.#resolve(written);
    if (!resolved) return;
    const devices = await this.#options.backend?.devices?.();
    const before = validateBeforeLoad(normaliseModelConfig(resolved, devices), devices);
    if (isEnsemble(resolved)) {
      this.completed = normaliseModelConfig(resolved);
      this.#addTexts(validateModelConfig(this.completed));
      return;
    }
    this.#addTexts(before);
    // A file outside of the model's folder is not to be opened.
    if (before.some((text) => text.startsWith('default_model_filename'))) return;
    const { backend } = this.#options;
    if (!backend) return;
    for (const version of this.versions) await this.#examineVersion(backend, resolved, version);
  }

  /** Problems that ended a step, or that only the load itself met. */
  note(error: InferError, ...fields: readonly string[]): void {
    for (const text of problemsIn(error.message, this.#folder.name)) {
      this.#add({ ...splitFix(text), ...this.#places.of(text, ...fields) });
    }
  }

  async #readConfig(): Promise<ModelConfig | undefined> {
    let text: string;
    try {
      text = await readFile(this.#configFile, 'utf8');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return create(ModelConfigSchema);
      this.#add({ message: 'the config cannot be read', file: this.#configFile });
      return undefined;
    }
    const read = listConfigErrors(text);
    if (Array.isArray(read)) {
      for (const { line, column, what } of read) this.#add({ ...splitFix(what), file: this.#configFile, line, column });
      return undefined;
    }
    this.#places = new ConfigPlaces(this.#configFile, text);
    return read;
  }

  async #resolve(written: ModelConfig): Promise<ModelConfig | undefined> {
    const { name, path } = this.#folder;
    const first = this.available.toSorted()[0]; // by text, as the server does
    const fileNames = first === undefined ? [] : await readdir(join(path, first));
    let config = written;
    if (config.name !== '' && config.name !== name) {
      const message = `the config has name "${config.name}", the folder is "${name}"`;
      this.#add({ message, fix: `set name: "${name}", or leave it out`, ...this.#places.of('name') });
      config = { ...config, name: '' };
    }
    // Without a version folder there is nothing to tell the backend by, which has been said.
    if (first === undefined && config.backend === '' && config.platform === '') return undefined;
    let resolved: ModelConfig | undefined;
    this.#noteErrorOf(['backend', 'platform'], () => {
      resolved = resolveBackend(config, name, fileNames);
    });
    return resolved;
  }

  async #examineVersion(backend: Backend, config: ModelConfig, version: string): Promise<void> {
    const { name, path } = this.#folder;
    const where = this.versions.length > 1 ? `version ${version}: ` : '';
    let file: string;
    try {
      file = await modelFile({ config, path, name, versions: this.versions }, version);
    } catch (error) {
      this.note(InferError.from(error), 'default_model_filename');
      return;
    }
    let loaded: LoadedModel;
    try {
      loaded = await backend.load(await loadOptionsOf(config, path, file, await backend.devices?.()));
    } catch (error) {
      this.#add({ message: `${where}${InferError.from(error).message}`, file });
      return;
    }
    try {
      await this.#compare(config, loaded, where, await backend.devices?.());
    } finally {
      await loaded.close();
    }
  }

  async #compare(config: ModelConfig, graph: Graph, where: string, devices: Devices | undefined): Promise<void> {
    let completed: ModelConfig | undefined;
    this.#noteErrorOf(['max_batch_size'], () => {
      completed = normaliseModelConfig(completeModelConfig(config, graph), devices);
    });
    if (!completed) return;
    this.completed = completed;
    this.#addTexts(validateModelConfig(completed, devices));
    for (const misfit of findRepairs(completed, graph, devices)) this.#add(this.#problemOf(misfit, where));
    await this.#examineLabels(completed);
  }

  #problemOf({ side, tensor, field, what, fix, shapes }: Misfit, where: string): Problem {
    const entry = `${side} "${tensor}"`;
    return {
      message: `${where}${what}`,
      ...this.#places.of(field === undefined ? side : `${entry}: ${field}`),
      tensor: { kind: side, name: tensor, ...(field !== undefined && { field }) },
      ...(shapes && { shapes }),
      ...(fix !== '' && { fix }),
    };
  }

  async #examineLabels(config: ModelConfig): Promise<void> {
    for (const output of config.output) {
      if (output.labelFilename === '') continue;
      try {
        await readLabels({ ...config, output: [output] }, this.#folder.path);
      } catch (error) {
        this.note(InferError.from(error), `output "${output.name}": label_filename`);
      }
    }
  }

  #noteErrorOf(fields: readonly string[], step: () => void): void {
    try {
      step();
    } catch (error) {
      this.note(InferError.from(error), ...fields);
    }
  }

  #addTexts(texts: readonly string[]): void {
    for (const text of texts) this.#add({ ...splitFix(text), ...this.#places.of(text) });
  }

  /** Several versions may have the same problem, and the checks of one config overlap. */
  #add(problem: Problem): void {
    const same = ({ message, fix }: Problem) => message === problem.message && fix === problem.fix;
    if (!this.problems.some(same)) this.problems.push(problem);
  }
}

/** The problems of an error's text, which may go through several versions and number them, without the name of the model. */
function problemsIn(message: string, name: string): string[] {
  return message
    .replace(`load failed for model '${name}': `, '')
    .split(/version \d+ is at \w+ state: /)
    .flatMap((part) => {
      const text = part.replace(`model "${name}": `, '').replace(/;\s*$/, '');
      const list = /^\d+ problems: 1\) (.*)$/s.exec(text)?.[1];
      return list === undefined ? [text] : list.split(/; \d+\) /);
    })
    .filter((text) => text !== '');
}
