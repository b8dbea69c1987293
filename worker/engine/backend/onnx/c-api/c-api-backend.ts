import { dirname } from 'node:path';
import type { Backend, LoadedModel, LoadOptions } from '../../../instance/instance.ts';
import { type GpuFolder, problemOfFolder } from '../gpu/gpu-folder.ts';
import { loadError } from '../ort-error.ts';
import { worksByShape } from '../work-by-shape.ts';
import { openApi, type Api, type GlobalThreads } from './api.ts';
import { bindGraph } from './bound-graph.ts';
import { CApiInstance, type SharedSession } from './c-api-instance.ts';
import type { Pointer } from './functions.ts';
import { loadOnGpus } from './gpu-model.ts';
import { Gpus } from './gpus.ts';
import { readGraph, type SessionGraph } from './graph.ts';
import { closeSession, openSession } from './session.ts';
import { ShortRuns } from './short-runs.ts';
import { failureOf } from './status.ts';

/**
 * ONNX Runtime through its C API: loads, runs and frees on threads of libuv's pool, so the event loop never waits. All
 * instances of a model share one session, that is one copy of the weights. `process.exit()` waits for the pool's threads,
 * so for runs under way: stop them first, or they decide when the process ends.
 * @param globalThreads what all sessions share instead of having threads of their own; the first backend of a process decides
 * @param folder GPU support, where it is installed
 * @throws InferError UNAVAILABLE when the library cannot be loaded on this platform.
 */
export function createCApiBackend(globalThreads?: GlobalThreads, folder?: GpuFolder): Backend {
  const problem = folder && problemOfFolder(folder);
  const api = openApi(globalThreads, problem ? undefined : folder?.core);
  if (!folder) return { load: (options, inBackground = false) => loadModel(api, options, inBackground) };
  const gpus = new Gpus(api, problem, dirname(folder.core));
  return {
    load: (options, inBackground = false) =>
      options.gpu ? loadOnGpus(api, gpus, options, options.gpu) : loadModel(api, options, inBackground),
    devices: () => gpus.devices(),
  };
}

async function loadModel(api: Api, options: LoadOptions, background: boolean): Promise<LoadedModel> {
  const byShape = worksByShape(options.path);
  let session: Pointer;
  try {
    session = await openSession(api, options, background);
  } catch (error) {
    throw loadError(failureOf(error), options.path);
  }
  try {
    const { arenaShrinkage } = options;
    const graph = readGraph(api, session);
    const short = (await byShape) ? new ShortRuns() : undefined;
    const bound = bindGraph(graph);
    const shared = { api, pointer: session, graph: bound, arenaShrinkage, shapesDiffer: false, background, short };
    return loadedModel(shared, graph);
  } catch (error) {
    await closeSession(api, session);
    throw loadError(failureOf(error), options.path);
  }
}

function loadedModel(session: SharedSession, graph: SessionGraph): LoadedModel {
  const { api, pointer } = session;
  let closed: Promise<void> | undefined;
  return {
    ...graph,
    createInstance: () => Promise.resolve(new CApiInstance(session)),
    startServing() {
      session.background = false;
    },
    close() {
      return (closed ??= closeSession(api, pointer));
    },
  };
}
