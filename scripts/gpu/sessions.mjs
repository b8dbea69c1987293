// Sessions as the engine opens them, without anything around them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { dist } from './places.mjs';

const { createCApiBackend } = await import(dist('worker/engine/backend/onnx/c-api/c-api-backend.js'));
const { readGpuFolder } = await import(dist('worker/engine/backend/onnx/gpu/gpu-folder.js'));
const { convolutionModel, matrixModel } = await import(dist('worker/engine/backend/onnx/gpu/probe-model.js'));
const { gpuOptionsOf } = await import(dist('shared/model/gpu-options.js'));
const { sessionOptionsOf } = await import(dist('shared/model/ort-options.js'));
const { parseModelConfig } = await import(dist('shared/model/parse-config.js'));

/** Four matrices of 1024, and five convolutions over 64 channels of 112 x 112: 1.9 thousand million multiplications a row. */
export const MODELS = {
  matrix: { bytes: () => matrixModel(4, 1024), row: [1024] },
  vision: { bytes: () => convolutionModel(5, 64, 112), row: [3, 112, 112] },
};

/** The first GPU that this process sees. */
export const GPU = 0;

export const temporary = mkdtempSync(join(tmpdir(), 'millrace-gpu-part-'));
process.once('exit', () => rmSync(temporary, { recursive: true, force: true }));

export function createBackend() {
  return createCApiBackend(undefined, readGpuFolder(process.env.MILLRACE_GPU_DIR));
}

export function writeModel(name, path = join(temporary, `${name}.onnx`)) {
  writeFileSync(path, MODELS[name].bytes());
  return path;
}

/**
 * @param options of config.pbtxt by their names; undefined for the CPU
 * @param count of instances
 */
export async function openModel(backend, path, options, count = 1) {
  const parameters = Object.entries(options ?? {}).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  const group = options ? `instance_group { kind: KIND_GPU gpus: [ ${GPU} ] count: ${count} }` : '';
  const config = parseModelConfig(`name: "m" ${group} ${parameters.join(' ')}`, 'config.pbtxt');
  const gpu = gpuOptionsOf(config);
  if (gpu) await backend.devices();
  const settings = sessionOptionsOf(config);
  const threads = gpu ? 1 : Math.min(16, availableParallelism());
  const loaded = await backend.load({
    path,
    ...settings,
    intraOpNumThreads: threads,
    customOpLibraries: [],
    ...(gpu && { gpu }),
  });
  try {
    const instances = [];
    for (let index = 0; index < count; index += 1) instances.push(await loaded.createInstance(gpu ? GPU : undefined));
    return {
      instances,
      close: async () => {
        for (const instance of instances) await instance.close();
        await loaded.close();
      },
    };
  } catch (error) {
    await loaded.close();
    throw error;
  }
}

export function shapeOf(name, rows) {
  return [rows, ...MODELS[name].row];
}

/** Numbers between -0.5 and 0.5, the same each time. */
export function inputOf(shape) {
  const length = shape.reduce((product, dim) => product * dim, 1);
  return Buffer.from(Float32Array.from({ length }, (_, index) => ((index * 31) % 17) / 17 - 0.5).buffer);
}

/** One run. */
export async function run(instance, shape, data) {
  const startedMs = performance.now();
  const [output] = await instance.run([{ name: 'x', datatype: 'FP32', shape, data }], ['y']).result;
  return { ms: performance.now() - startedMs, data: output.data };
}

/** Runs one after the other until either bound. Returns what each took. */
export async function repeat(instance, shape, { runs, forMs }) {
  const data = inputOf(shape);
  const times = [];
  const endsMs = performance.now() + forMs;
  let last;
  do {
    last = await run(instance, shape, data);
    times.push(last.ms);
  } while (times.length < runs && performance.now() < endsMs);
  return { times, values: new Float32Array(Uint8Array.from(last.data).buffer) };
}
