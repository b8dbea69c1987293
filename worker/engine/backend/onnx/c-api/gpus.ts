import { create } from '@bufbuild/protobuf';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Devices } from '../../../../../shared/model/devices.ts';
import { sessionOptionsOf } from '../../../../../shared/model/ort-options.ts';
import { ModelConfigSchema } from '../../../../../shared/proto/generated/model_config_pb.ts';
import type { LoadOptions } from '../../../instance/instance.ts';
import type { CudaProblem } from '../gpu/cuda-error.ts';
import { CUDNN } from '../gpu/cuda-libraries.ts';
import { type CudaRuntime, tryLibrary } from '../gpu/cuda-runtime.ts';
import { findDevices } from '../gpu/find-devices.ts';
import { sumModel } from '../gpu/probe-model.ts';
import type { Api } from './api.ts';
import { bindGraph } from './bound-graph.ts';
import { CApiInstance } from './c-api-instance.ts';
import { appendCuda } from './cuda-provider.ts';
import { readGraph } from './graph.ts';
import { closeSession, openSession } from './session.ts';
import { failureOf } from './status.ts';

/** Of the free memory of a GPU; the rest is left to what CUDA and cuDNN take beside the arena. */
const MEMORY_SHARE = 0.9;

const PROBE_BYTES = 64 * 1024 * 1024;

/** The GPUs of this process, tried once each. */
export class Gpus {
  readonly #api: Api;
  readonly #problem: CudaProblem | undefined;
  #runtime: CudaRuntime | undefined;
  #devices: Promise<Devices> | undefined;
  #cudnn: { readonly problem: CudaProblem | undefined } | undefined;

  /** @param problem what keeps the installed files from being used; nothing of them is touched then */
  constructor(api: Api, problem: CudaProblem | undefined) {
    this.#api = api;
    this.#problem = problem;
  }

  /** Which of them work. Never rejects. */
  devices(): Promise<Devices> {
    this.#devices ??= this.#find();
    return this.#devices;
  }

  /** What an arena may grow to by itself, in bytes, when `sessions` of them are to have equal parts of what is free. */
  memoryLimit(gpu: number, sessions: number): number | undefined {
    const free = this.#runtime?.freeBytes(gpu);
    return free === undefined ? undefined : Math.max(1, Math.floor((free * MEMORY_SHARE) / sessions));
  }

  /** What keeps convolutions from running, which ONNX Runtime would say at their first run. */
  cudnnProblem(): CudaProblem | undefined {
    this.#cudnn ??= { problem: tryLibrary(CUDNN.name) };
    return this.#cudnn.problem;
  }

  async #find(): Promise<Devices> {
    const { devices, runtime } = await findDevices(this.#problem, (gpu) => trySession(this.#api, gpu));
    this.#runtime = runtime;
    return devices;
  }
}

/** Runs one kernel: a driver, a context and code for the architecture all have to be there. */
async function trySession(api: Api, gpu: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-gpu-'));
  try {
    const path = join(folder, 'model.onnx');
    await writeFile(path, sumModel());
    const options: LoadOptions = { path, ...sessionOptionsOf(create(ModelConfigSchema)), customOpLibraries: [] };
    const settings = { gpu, options: { gpu_mem_limit: String(PROBE_BYTES) }, strict: true };
    const pointer = await openSession(api, options, false, (session) => appendCuda(api.ort, session, settings));
    try {
      const graph = bindGraph(readGraph(api, pointer));
      const session = { api, pointer, graph, arenaShrinkage: '', shapesDiffer: false, background: false };
      const instance = new CApiInstance(session);
      const data = Buffer.from(new Float32Array(4).buffer);
      await instance.run([{ name: 'x', datatype: 'FP32', shape: [1, 4], data }], ['y']).result;
      await instance.close();
    } finally {
      await closeSession(api, pointer);
    }
  } catch (error) {
    throw new Error(failureOf(error).text, { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
