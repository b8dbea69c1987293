import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { loadOptions } from '../../support/load-options.ts';
import type { Backend, LoadedModel, ModelInstance } from '../../../worker/engine/instance/instance.ts';
import { makeFixtureRepository } from '../../fixtures/make-models.ts';
import { writeModel, type OnnxModel } from '../../support/onnx/model.ts';

/** What an implementation is allowed not to do, each with its reason in the test file that says so. */
export interface Abilities {
  readonly stopsRuns: boolean;
  readonly carriesBf16: boolean;
  readonly carriesAnyBytes: boolean;
  readonly takesOptionalInputs: boolean;
  /** Whether an error of ONNX Runtime comes with its code, or with its text alone. */
  readonly knowsErrorCodes: boolean;
}

/** A backend with a folder of models; what is opened through it is closed at the end. */
export interface Workbench {
  readonly abilities: Abilities;
  /** Valid once the tests run. */
  readonly folder: () => string;
  readonly backend: () => Backend;
  readonly pathOf: (model: string) => string;
  /** Adds a model; gives its name back. */
  readonly write: (name: string, graph: OnnxModel) => string;
  readonly load: (model: string) => Promise<LoadedModel>;
  readonly instanceOf: (model: string) => Promise<ModelInstance>;
}

export function createWorkbench(createBackend: () => Backend, abilities: Abilities): Workbench {
  let folder: string;
  let backend: Backend;
  const opened: { close(): Promise<void> }[] = [];

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-instance-'));
    makeFixtureRepository(folder);
    backend = createBackend();
  });

  afterAll(async () => {
    for (const one of opened.reverse()) await one.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const pathOf = (model: string) => join(folder, model, '1', 'model.onnx');
  const load = async (model: string) => {
    const loaded = await backend.load(loadOptions(pathOf(model)));
    opened.push(loaded);
    return loaded;
  };
  return {
    abilities,
    folder: () => folder,
    backend: () => backend,
    pathOf,
    write(name, graph) {
      writeModel(pathOf(name), graph);
      return name;
    },
    load,
    async instanceOf(model) {
      const instance = await (await load(model)).createInstance();
      opened.push(instance);
      return instance;
    },
  };
}
