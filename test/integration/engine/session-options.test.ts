import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createBindingBackend } from '../../../worker/engine/backend/onnx/binding/binding-backend.ts';
import type { EngineOptions } from '../../../worker/engine/create-engine.ts';
import * as graphs from '../../fixtures/graphs.ts';
import { encodeModel, type OnnxModel, writeModel } from '../../support/onnx/model.ts';
import type { EngineUnderTest } from './kit.ts';
import { f32, floatsFrom, send, startEngine, temporaryFolder } from './kit.ts';

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

const CONFIG = `max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
`;

const parameter = (key: string, value: string) => `parameters { key: "${key}" value { string_value: "${value}" } }\n`;

/** Loads the model `m`; its reason when it does not load. */
async function load(graph: OnnxModel, rest: string, options: Partial<EngineOptions> = {}): Promise<string | undefined> {
  const model = join(folder.path, 'm');
  writeModel(join(model, '1', 'model.onnx'), graph);
  writeFileSync(join(model, 'config.pbtxt'), CONFIG + rest);
  running = await startEngine([folder.path], options);
  return running.engine.catalog.list()[0]?.reason;
}

const ask = () => floatsFrom(send(running!.engine, 'm', [f32('x', [1, 2], [1, 2])]));

const ENTRIES = [
  ['session.use_device_allocator_for_initializers', '1'],
  ['session.set_denormal_as_zero', '1'],
  ['session.disable_prepacking', '1'],
  ['session.intra_op.allow_spinning', '1'],
  ['session.dynamic_block_base', '4'],
  ['optimization.enable_gelu_approximation', '1'],
] as const;

describe.each([
  ['the C API', undefined],
  ['the binding', createBindingBackend],
] as const)('parameters of a session, with %s', (_, createBackend) => {
  const options = () => (createBackend ? { backend: createBackend() } : {});

  it.each(ENTRIES)('takes %s', async (key, value) => {
    expect(await load(graphs.identity('FP32'), parameter(key, value), options())).toBe('');
    expect(await ask()).toEqual([1, 2]);
  });

  it('hands them to ONNX Runtime, which refuses what it does not like', async () => {
    const reason = await load(graphs.identity('FP32'), parameter('session.load_model_format', 'ORT'), options());
    expect(reason).toContain('the model file could not be loaded');
  });
});

describe('memory.enable_memory_arena_shrinkage', () => {
  const text = parameter('memory.enable_memory_arena_shrinkage', 'cpu:0');

  it('is taken into every run', async () => {
    expect(await load(graphs.identity('FP32'), text)).toBe('');
    expect(await ask()).toEqual([1, 2]);
    expect(await ask()).toEqual([1, 2]);
  });

  it('is refused where only the binding is there', async () => {
    const reason = await load(graphs.identity('FP32'), text, { backend: createBindingBackend() });
    expect(reason).toContain('does not support parameter "memory.enable_memory_arena_shrinkage": serve with --onnx');
  });
});

describe('model_operations', () => {
  const TWICE: OnnxModel = {
    ...graphs.identity('FP32'),
    nodes: [{ op: 'Twice', domain: 'millrace.tests', inputs: ['x'], outputs: ['y'] }],
    domains: ['millrace.tests'],
  };
  const OPERATIONS = 'model_operations { op_library_filename: "twice.so" }';

  function compile(): void {
    writeModel(join(folder.path, 'm', '1', 'model.onnx'), TWICE); // makes the folder
    const source = fileURLToPath(new URL('../../fixtures/custom-op.c', import.meta.url));
    execFileSync('cc', ['-shared', '-fPIC', '-o', join(folder.path, 'm', 'twice.so'), source]);
  }

  /** The library has to be made for this machine; a compiler is no more than this one test needs. */
  const noCompiler = spawnSync('cc', ['--version']).error !== undefined;

  it.skipIf(noCompiler)('brings operators of its own from a library in the model’s folder', async () => {
    compile();
    expect(await load(TWICE, OPERATIONS)).toBe('');
    expect(await ask()).toEqual([2, 4]);
  });

  it('needs the library for them', async () => {
    expect(await load(TWICE, '')).toContain('the model file could not be loaded');
  });

  it.each([
    ['other.so', 'model_operations.op_library_filename "other.so" is not there'],
    ['1', 'model_operations.op_library_filename "1" is not there'],
    ['../x.so', 'expected the name of a file inside the model\'s folder, got "../x.so"'],
    ['', 'model_operations.op_library_filename: expected the name of a file'],
  ])('refuses %j', async (name, problem) => {
    const reason = await load(TWICE, `model_operations { op_library_filename: "${name}" }`);
    expect(reason).toContain(problem);
    expect(reason).not.toContain(folder.path);
  });

  it('says so when the file is no library', async () => {
    writeModel(join(folder.path, 'm', 'twice.so'), TWICE);
    const reason = await load(TWICE, OPERATIONS);
    expect(reason).toContain('twice.so');
    expect(reason).not.toContain(folder.path);
  });

  it('is refused where only the binding is there', async () => {
    compile();
    const reason = await load(TWICE, OPERATIONS, { backend: createBindingBackend() });
    expect(reason).toContain('does not support model_operations.op_library_filename: serve with --onnxruntime-api=c');
  });

  it('does not come with a load over the API, which could bring any code', async () => {
    await load(graphs.identity('FP32'), '', { controlMode: 'explicit' });
    const config = JSON.stringify({ modelOperations: { opLibraryFilename: ['1/twice.so'] }, backend: 'onnxruntime' });
    const files = new Map<string, Uint8Array>([
      ['1/model.onnx', encodeModel(TWICE)],
      ['1/twice.so', new Uint8Array(8)],
    ]);
    await expect(running!.engine.control.load('m', { config, files })).rejects.toThrow(
      'model_operations does not go with a load that brings files',
    );
  });
});

describe('completion', () => {
  it.each([
    [undefined, 4],
    [16, 16],
    [0, 0],
  ])('with a default maximum of %s sets max_batch_size %i', async (defaultMaxBatchSize, expected) => {
    writeModel(join(folder.path, 'm', '1', 'model.onnx'), graphs.identity('FP32'));
    running = await startEngine([folder.path], defaultMaxBatchSize === undefined ? {} : { defaultMaxBatchSize });
    expect(running.engine.catalog.resolve('m', '').maxBatchSize).toBe(expected);
  });
});
