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
import { GpuRoom, type Hold } from '../gpu/gpu-room.ts';
import { tensorRtProblem } from '../gpu/tensorrt-libraries.ts';
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
  readonly #providers: string;
  readonly #room = new GpuRoom();
  #runtime: CudaRuntime | undefined;
  #devices: Promise<Devices> | undefined;
  #cudnn: { readonly problem: CudaProblem | undefined } | undefined;

  /**
   * @param problem what keeps the installed files from being used; nothing of them is touched then
   * @param providers the folder of ONNX Runtime's providers
   */
  constructor(api: Api, problem: CudaProblem | undefined, providers: string) {
    this.#api = api;
    this.#providers = providers;
    this.#problem = problem;
  }

  /** Which of them work. Never rejects. */
  devices(): Promise<Devices> {
    this.#devices ??= this.#find();
    return this.#devices;
  }

  /** What an arena may grow to by itself, in bytes, when `sessions` of them are to have equal parts of what is free. */
  memoryLimit(gpu: number, sessions: number): number | undefined {
    const free = this.freeBytes(gpu);
    return free === undefined ? undefined : Math.max(1, Math.floor((free * MEMORY_SHARE) / sessions));
  }

  /** Undefined where CUDA does not tell. */
  freeBytes(gpu: number): number | undefined {
    return this.#runtime?.freeBytes(gpu);
  }

  /**
   * Sets memory aside for the weights of so many sessions until they are open.
   * @throws InferError RESOURCE_EXHAUSTED when there is not so much
   */
  hold(gpu: number, weights: number, sessions: number): Hold | undefined {
    const free = this.freeBytes(gpu);
    return free === undefined ? undefined : this.#room.hold(gpu, weights, sessions, free);
  }

  /** What keeps convolutions from running, which ONNX Runtime would say at their first run. */
  cudnnProblem(): CudaProblem | undefined {
    this.#cudnn ??= { problem: tryLibrary(CUDNN.name) };
    return this.#cudnn.problem;
  }

  /** What keeps TensorRT from being used. */
  tensorRtProblem(): CudaProblem | undefined {
    return tensorRtProblem(this.#providers);
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
