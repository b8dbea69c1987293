import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import type { EngineOptions } from '../../../worker/engine/create-engine.ts';
import type { Engine } from '../../../worker/engine/engine.ts';
import {
  codeOf,
  type EngineUnderTest,
  f32,
  floatsFrom,
  type LogEntry,
  send,
  startEngine,
  temporaryFolder,
} from './kit.ts';

/** What a load brings along for a model of add-model.ts. */
export const CONFIG = {
  max_batch_size: 8,
  platform: 'onnxruntime_onnx',
  input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [-1] }],
  output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [-1] }],
};

/** A repository and an engine over it for each test of the file, gone after it. The models are those of add-model.ts. */
export function useRepository() {
  let folder: ReturnType<typeof temporaryFolder>;
  let running: EngineUnderTest | undefined;
  beforeEach(() => {
    folder = temporaryFolder();
    running = undefined;
  });
  afterEach(async () => {
    await running?.close();
    folder.remove();
  });

  function underTest(): EngineUnderTest {
    if (!running) throw new Error('no engine');
    return running;
  }
  async function start(options: Partial<EngineOptions>): Promise<Engine> {
    running = await startEngine([folder.path], options);
    return running.engine;
  }
  const askZero = (name: string, version: string) =>
    send(underTest().engine, name, [f32('x', [1, 1], [0])], { version });
  return {
    /** Of the repository. */
    root: () => folder.path,
    pathOf: (...parts: string[]) => join(folder.path, ...parts),
    start,
    startExplicit: (loadAtStart: string[] = []) => start({ controlMode: 'explicit', loadAtStart }),
    engine: (): Engine => underTest().engine,
    log: (): readonly LogEntry[] => underTest().log,
    close: () => underTest().close(),
    /** `version state` of each row of the model. */
    statesOf: (name: string) =>
      underTest()
        .engine.catalog.list()
        .filter((row) => row.name === name)
        .map(({ version = '', state }) => `${version} ${state}`.trim()),
    reasonOf: (name: string) =>
      underTest()
        .engine.catalog.list()
        .find((row) => row.name === name)?.reason,
    /** What the model adds to zero. */
    ask: async (name = 'm', version = '') => (await floatsFrom(askZero(name, version)))[0],
    /** The code that a request fails with, or `fulfilled`. */
    codeFor: (name = 'm', version = '') => codeOf(askZero(name, version)),
  };
}
