import { InferError } from '../../../shared/errors.ts';
import type { BatchingReport } from '../../../shared/infer/batching-report.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { nearestName } from '../../../shared/nearest-name.ts';
import { createBindingBackend } from '../../../worker/engine/backend/onnx/binding/binding-backend.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { createEngine } from '../../../worker/engine/create-engine.ts';
import type { Engine } from '../../../worker/engine/engine.ts';
import type { Backend } from '../../../worker/engine/instance/instance.ts';
import { type ModelFolder, scanRepositories } from '../../../worker/engine/repository/scan-repositories.ts';
import { findGpuFolder } from '../../gpu-dir.ts';
import { type Examination, examineModel } from './examine-model.ts';
import type { Problem } from './problem.ts';
import { RecordingLogger } from './recording-logger.ts';

export interface LoaderSettings {
  readonly modelRepository: readonly string[];
  readonly modelConfigName: string | undefined;
  readonly onnxruntimeApi: 'c' | 'binding';
  readonly gpuDir: string | undefined;
}

/** What became of loading one model. */
export interface LoadReport {
  readonly model: string;
  /** Those that serve, or would; ascending. */
  readonly versions: readonly string[];
  readonly problems: readonly Problem[];
  /** What does not keep the model from serving. */
  readonly warnings: readonly string[];
  /** The newest version, while it is loaded; undefined when it is not. */
  readonly ready: ReadyModel | undefined;
  /** What was found out about its batches. */
  readonly batching?: BatchingReport | undefined;
}

interface LoaderParts {
  readonly folders: readonly ModelFolder[];
  readonly warnings: readonly string[];
  readonly engine: Engine;
  readonly backend: Backend;
  readonly logger: RecordingLogger;
  readonly configName: string | undefined;
}

/** Loads models of a repository one at a time, with an engine as a server has it, and finds out why one cannot be loaded. */
export class ModelLoader {
  readonly folders: readonly ModelFolder[];
  /** About the repositories as a whole. */
  readonly warnings: readonly string[];
  readonly #engine: Engine;
  readonly #backend: Backend;
  readonly #logger: RecordingLogger;
  readonly #configName: string | undefined;

  constructor(parts: LoaderParts) {
    this.folders = parts.folders;
    this.warnings = parts.warnings;
    this.#engine = parts.engine;
    this.#backend = parts.backend;
    this.#logger = parts.logger;
    this.#configName = parts.configName;
  }

  /** @throws InferError NOT_FOUND for a name that the repositories do not have. */
  folder(name: string): ModelFolder {
    const found = this.folders.find((folder) => folder.name === name);
    if (found) return found;
    const names = this.folders.map((folder) => folder.name);
    const nearest = nearestName(name, names);
    const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`;
    throw new InferError('NOT_FOUND', `no model "${name}" in the repository${hint}`);
  }

  /** Loads a model as a server does, with self-test and warm-up. It stays loaded until `unload`. */
  async load(folder: ModelFolder): Promise<LoadReport> {
    const { name } = folder;
    try {
      await this.#engine.control.load(name);
    } catch (error) {
      return this.#explainFailure(folder, InferError.from(error));
    }
    const ready = this.#engine.catalog.resolve(name, '');
    const { batching } = this.#engine.statsOf(name, '');
    return { model: name, versions: ready.versions, problems: [], warnings: this.#logger.take(name), ready, batching };
  }

  async unload(name: string): Promise<void> {
    await this.#engine.control.unload(name, true);
  }

  /** Compares config and files without running anything. */
  async compare(folder: ModelFolder): Promise<LoadReport> {
    const { problems, versions } = await this.examine(folder, true);
    return { model: folder.name, versions, problems, warnings: this.#logger.take(folder.name), ready: undefined };
  }

  /** @param open whether to open the model files too */
  examine(folder: ModelFolder, open: boolean, refusal?: InferError): Promise<Examination> {
    return examineModel(folder, {
      backend: open ? this.#backend : undefined,
      logger: this.#logger,
      configName: this.#configName,
      refusal,
    });
  }

  async close(): Promise<void> {
    await this.#engine.close(0);
  }

  async #explainFailure(folder: ModelFolder, error: InferError): Promise<LoadReport> {
    this.#logger.take(folder.name); // the examination finds the same again
    const { problems, versions } = await this.examine(folder, true, error);
    return { model: folder.name, versions, problems, warnings: this.#logger.take(folder.name), ready: undefined };
  }
}

/** @throws InferError NOT_FOUND for a repository that cannot be read, or that has no model. */
export async function openModelLoader(settings: LoaderSettings): Promise<ModelLoader> {
  const logger = new RecordingLogger();
  const { modelRepository: repositories, modelConfigName: configName, onnxruntimeApi } = settings;
  const folders = await scanRepositories(repositories, logger);
  if (folders.length === 0) throw new InferError('NOT_FOUND', `no model folder in ${repositories.join(', ')}`);
  const gpu = findGpuFolder(settings.gpuDir);
  const backend = onnxruntimeApi === 'binding' ? createBindingBackend(gpu) : createCApiBackend(undefined, gpu);
  const engine = await createEngine({
    repositories,
    backend,
    logger,
    controlMode: 'explicit',
    ...(configName !== undefined && { configName }),
  });
  return new ModelLoader({ folders, warnings: logger.takeGeneral(), engine, backend, logger, configName });
}
