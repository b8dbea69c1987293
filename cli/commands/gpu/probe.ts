import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { gpuOptionsOf } from '../../../shared/model/gpu-options.ts';
import { sessionOptionsOf } from '../../../shared/model/ort-options.ts';
import {
  ModelConfigSchema,
  ModelInstanceGroup_Kind as Kind,
  ModelInstanceGroupSchema,
} from '../../../shared/proto/generated/model_config_pb.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { type CudaProblem, explainCudaError } from '../../../worker/engine/backend/onnx/gpu/cuda-error.ts';
import {
  ARCHITECTURES,
  CUDNN,
  hasCodeFor,
  LINKED_LIBRARIES,
} from '../../../worker/engine/backend/onnx/gpu/cuda-libraries.ts';
import { openCudaRuntime, tryLibrary } from '../../../worker/engine/backend/onnx/gpu/cuda-runtime.ts';
import { readGpuFolder } from '../../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import { convolutionModel, matrixModel } from '../../../worker/engine/backend/onnx/gpu/probe-model.ts';
import type { Backend, ModelInstance } from '../../../worker/engine/instance/instance.ts';
import type { ProbeLine } from './probe-steps.ts';

const GPU = 0;
const LAYERS = 4;
const WIDTH = 1024;
const ROWS = 32;
const RUNS = 10;

/** TF32 keeps three digits of a product. */
const MAX_DIFFERENCE = 0.02;

/**
 * The steps that load native code, in a process of their own: a damaged library ends it. Ends at the first that fails.
 * @param path the folder of `millrace gpu install`
 */
export async function probe(path: string): Promise<void> {
  const temporary = await mkdtemp(join(tmpdir(), 'millrace-gpu-check-'));
  try {
    for (const [step, run] of stepsOf(path, temporary)) {
      send({ begins: step });
      const found = await attempt(run);
      if (typeof found === 'string') send({ step, ok: true, text: found, repair: '' });
      else {
        send({ step, ok: false, text: found.message, repair: found.repair });
        return;
      }
    }
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

type Found = string | CudaProblem;
type Step = readonly [name: string, run: () => Found | Promise<Found>];

async function attempt(run: Step[1]): Promise<Found> {
  try {
    return await run();
  } catch (error) {
    return problemOf(error);
  }
}

function stepsOf(path: string, temporary: string): Step[] {
  const libraries = LINKED_LIBRARIES.toSorted(
    (a, b) => Number(b.package === undefined) - Number(a.package === undefined),
  );
  return [
    ...libraries.map(({ name, package: from }): Step => {
      return [from === undefined ? 'driver' : 'library', () => tryLibrary(name) ?? `${name} found`];
    }),
    ['device', describeDevices],
    ['session', () => openProvider(path)],
    ['cuDNN', () => firstConvolution(path, temporary)],
    ['speed', () => compareSpeed(path, temporary)],
  ];
}

function send(line: ProbeLine): void {
  writeSync(1, `${JSON.stringify(line)}\n`); // at once: the next step may end the process
}

function problemOf(error: unknown): CudaProblem {
  const text = error instanceof Error ? error.message : String(error);
  return explainCudaError(text, GPU) ?? { stage: 'other', message: text, repair: '' };
}

function describeDevices(): string | CudaProblem {
  const runtime = openCudaRuntime();
  const count = runtime.deviceCount();
  const all = Array.from({ length: count }, (_, gpu) => ({ gpu, ...runtime.capability(gpu) }));
  const words = all.map(({ gpu, major, minor }) => `GPU ${gpu} (architecture ${major}.${minor})`).join(', ');
  const foreign = all.filter(({ major, minor }) => !hasCodeFor(major, minor));
  if (foreign.length === 0) return words;
  const which = foreign.map(({ gpu }) => gpu).join(', ');
  const message = `${words}: the provider has no code for ${which}; it has for ${ARCHITECTURES}`;
  return { stage: 'device', message, repair: 'leave it out with CUDA_VISIBLE_DEVICES' };
}

function backendOf(path: string): Backend {
  return createCApiBackend(undefined, readGpuFolder(path));
}

/** The backend's own look at the devices opens a session on each and runs it. */
async function openProvider(path: string): Promise<string> {
  const devices = await backendOf(path).devices?.();
  if (!devices || devices.gpus.length === 0) throw new Error(devices?.reason ?? 'CUDA provider not installed');
  const others = devices.reason === '' ? '' : `; ${devices.reason}`;
  return `a session was opened and run on GPU ${devices.gpus.join(', ')}${others}`;
}

async function firstConvolution(path: string, temporary: string): Promise<string | CudaProblem> {
  const missing = tryLibrary(CUDNN.name);
  if (missing) return missing;
  const file = join(temporary, 'convolution.onnx');
  await writeFile(file, convolutionModel(3, 32, 56));
  const startedMs = performance.now();
  return withInstance(backendOf(path), file, GPU, async (instance) => {
    await run(instance, [1, 3, 56, 56]);
    return `the first run of a convolution took ${Math.round(performance.now() - startedMs)} ms`;
  });
}

async function compareSpeed(path: string, temporary: string): Promise<string | CudaProblem> {
  const file = join(temporary, 'matrix.onnx');
  await writeFile(file, matrixModel(LAYERS, WIDTH));
  const backend = backendOf(path);
  const measured: { readonly ms: number; readonly values: Float32Array }[] = [];
  for (const gpu of [GPU, undefined]) measured.push(await withInstance(backend, file, gpu, time));
  const [onGpu, onCpu] = measured;
  if (!onGpu || !onCpu) throw new Error('nothing was measured');
  const difference = largestDifference(onGpu.values, onCpu.values);
  if (!(difference <= MAX_DIFFERENCE)) {
    const message = `the answers of GPU and CPU differ by ${difference.toPrecision(2)} of the largest`;
    return { stage: 'other', message, repair: '' };
  }
  const shown = `${onGpu.ms.toFixed(2)} ms on the GPU, ${onCpu.ms.toFixed(2)} ms on one thread of the CPU`;
  return `${LAYERS} matrices of ${WIDTH}, ${ROWS} rows: ${shown}`;
}

async function time(instance: ModelInstance): Promise<{ ms: number; values: Float32Array }> {
  const values = await run(instance, [ROWS, WIDTH]); // the first one is not measured
  const times: number[] = [];
  for (let index = 0; index < RUNS; index += 1) {
    const startedMs = performance.now();
    await run(instance, [ROWS, WIDTH]);
    times.push(performance.now() - startedMs);
  }
  return { ms: times.sort((a, b) => a - b)[RUNS >> 1] ?? 0, values };
}

async function withInstance<T>(
  backend: Backend,
  path: string,
  gpu: number | undefined,
  use: (instance: ModelInstance) => Promise<T>,
): Promise<T> {
  const config = create(ModelConfigSchema);
  if (gpu !== undefined) {
    config.instanceGroup.push(create(ModelInstanceGroupSchema, { kind: Kind.GPU, gpus: [gpu], count: 1 }));
  }
  const options = gpuOptionsOf(config);
  await backend.devices?.();
  const loaded = await backend.load({
    path,
    ...sessionOptionsOf(config),
    customOpLibraries: [],
    ...(options && { gpu: options }),
  });
  try {
    const instance = await loaded.createInstance(gpu);
    try {
      return await use(instance);
    } finally {
      await instance.close();
    }
  } finally {
    await loaded.close();
  }
}

async function run(instance: ModelInstance, shape: number[]): Promise<Float32Array> {
  const count = shape.reduce((product, dim) => product * dim, 1);
  const input = Float32Array.from({ length: count }, (_, index) => ((index * 31) % 17) / 17 - 0.5);
  const data = Buffer.from(input.buffer);
  const [output] = await instance.run([{ name: 'x', datatype: 'FP32', shape, data }], ['y']).result;
  if (!output) throw new Error('the model gave no output');
  return new Float32Array(Uint8Array.from(output.data).buffer);
}

function largestDifference(one: Float32Array, other: Float32Array): number {
  let difference = 0;
  let largest = 0;
  for (const [index, value] of one.entries()) {
    difference = Math.max(difference, Math.abs(value - (other[index] ?? NaN)));
    largest = Math.max(largest, Math.abs(other[index] ?? 0));
  }
  return difference / largest;
}
