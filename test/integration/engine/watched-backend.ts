import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import type { Backend, ModelInstance } from '../../../worker/engine/instance/instance.ts';

/** What an instance was run with, one after the other. */
export interface WatchedInstance {
  readonly runs: Tensor[][];
  closed: boolean;
}

export interface WatchedBackend {
  readonly backend: Backend;
  readonly instances: WatchedInstance[];
  /** The most runs that were under way at once. */
  readonly mostAtOnce: () => number;
}

/** ONNX Runtime, with a list of all instances and what each of them ran. */
export function watchedBackend(): WatchedBackend {
  const instances: WatchedInstance[] = [];
  let running = 0;
  let most = 0;
  const began = (result: Promise<unknown>): void => {
    running += 1;
    most = Math.max(most, running);
    const ended = () => {
      running -= 1;
    };
    result.then(ended, ended);
  };
  const real = createCApiBackend();
  const backend: Backend = {
    async load(options) {
      const loaded = await real.load(options);
      return {
        ...loaded,
        async createInstance() {
          const watched: WatchedInstance = { runs: [], closed: false };
          instances.push(watched);
          return watch(await loaded.createInstance(), watched, began);
        },
      };
    },
  };
  return { backend, instances, mostAtOnce: () => most };
}

/** ONNX Runtime, counting how often files are loaded, how many of them at once, and how often one is freed. */
export function countedBackend() {
  let loads = 0;
  let closes = 0;
  let now = 0;
  let most = 0;
  const real = createCApiBackend();
  const backend: Backend = {
    async load(options) {
      loads += 1;
      most = Math.max(most, (now += 1));
      try {
        const loaded = await real.load(options);
        return {
          ...loaded,
          async close() {
            await loaded.close();
            closes += 1;
          },
        };
      } finally {
        now -= 1;
      }
    },
  };
  return { backend, loads: () => loads, closes: () => closes, most: () => most };
}

function watch(
  instance: ModelInstance,
  watched: WatchedInstance,
  began: (result: Promise<unknown>) => void,
): ModelInstance {
  return {
    run(inputs, outputs, alone) {
      watched.runs.push(inputs.map((tensor) => ({ ...tensor, data: tensor.data.slice() })));
      const run = instance.run(inputs, outputs, alone);
      began(run.result);
      return run;
    },
    async close() {
      await instance.close();
      watched.closed = true;
    },
  };
}
