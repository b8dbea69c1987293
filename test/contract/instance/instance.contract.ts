import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { InferError } from '../../../shared/errors.ts';
import { byteSizeOf, DATATYPES, type Datatype } from '../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { Backend, LoadedModel, LoadOptions, ModelInstance } from '../../../worker/engine/instance/instance.ts';
import { IDENTITY_MODELS, makeFixtureRepository } from '../../fixtures/make-models.ts';
import { byteElements, f32, f32Of, i32, i32Of, i64, i64Of } from '../../support/onnx/data.ts';
import { writeModel } from '../../support/onnx/model.ts';
import * as graphs from './graphs.ts';

/** What an implementation is allowed not to do, each with its reason in the test file that says so. */
export interface Abilities {
  readonly stopsRuns: boolean;
  readonly carriesBf16: boolean;
  readonly carriesAnyBytes: boolean;
  readonly takesOptionalInputs: boolean;
  /** Whether an error of ONNX Runtime comes with its code, or with its text alone. */
  readonly knowsErrorCodes: boolean;
}

/** The behaviour of the instance port. Every backend passes all of it, save for the abilities that it lacks. */
export function describeInstances(createBackend: () => Backend, abilities: Abilities): void {
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

  const load = async (model: string): Promise<LoadedModel> => {
    const loaded = await backend.load(options(pathOf(model)));
    opened.push(loaded);
    return loaded;
  };

  const instanceOf = async (model: string): Promise<ModelInstance> => {
    const instance = await (await load(model)).createInstance();
    opened.push(instance);
    return instance;
  };

  const write = (name: string, graph: Parameters<typeof writeModel>[1]): string => {
    writeModel(pathOf(name), graph);
    return name;
  };

  describe('data', () => {
    const datatypes = Object.entries(IDENTITY_MODELS).filter(([, type]) => type !== 'BF16' || abilities.carriesBf16);
    test.each(datatypes)('%s comes back bit for bit', async (model, datatype) => {
      const instance = await instanceOf(model);
      await fc.assert(
        fc.asyncProperty(tensorOf(datatype, abilities.carriesAnyBytes), async (tensor) => {
          const before = Buffer.from(tensor.data);
          const [y] = await instance.run([tensor], ['y']).result;
          expect(y).toMatchObject({ name: 'y', datatype, shape: tensor.shape });
          expect(Buffer.compare(y!.data, before)).toBe(0);
          expect(Buffer.compare(tensor.data, before)).toBe(0);
        }),
        { numRuns: 60 },
      );
    });

    test('the datatypes of the protocol are all there', () => {
      expect(Object.values<Datatype>(IDENTITY_MODELS).toSorted()).toEqual(DATATYPES.toSorted());
    });

    test('outputs are not touched by later runs', async () => {
      const instance = await instanceOf('simple');
      const [first] = await instance.run(simpleInputs(1, 7), ['OUTPUT0']).result;
      for (let i = 0; i < 20; i++) await instance.run(simpleInputs(1, 100 + i), ['OUTPUT0']).result;
      expect(i32Of(first!.data)).toEqual(Array.from({ length: 16 }, () => 8));
    });

    test('a scalar has no dimensions and one element', async () => {
      const instance = await instanceOf('scalar');
      const [y] = await instance.run([fp32('x', [3], 1, 2, 3.5)], ['y']).result;
      expect(y).toMatchObject({ shape: [], datatype: 'FP32' });
      expect(f32Of(y!.data)).toEqual([6.5]);
    });

    test.each([
      ['no rows', 'id_f32', 'FP32', [0, 3]],
      ['no columns', 'id_f32', 'FP32', [2, 0]],
      ['no texts', 'id_str', 'BYTES', [0, 2]],
      ['no rows of fixed length', 'mlp', 'FP32', [0, 32]],
    ] as const)('%s give an empty output', async (_, model, datatype, shape) => {
      const instance = await instanceOf(model);
      const [y] = await instance.run([{ name: 'x', datatype, shape, data: new Uint8Array(0) }], ['y']).result;
      expect(y!.shape).toEqual(model === 'mlp' ? [0, 10] : shape);
      expect(y!.data.byteLength).toBe(0);
    });

    test('infinity and NaN are results like others', async () => {
      const instance = await instanceOf('logx');
      const [y] = await instance.run([fp32('x', [1, 3], 0, -1, 1)], ['y']).result;
      expect(f32Of(y!.data)).toEqual([-Infinity, NaN, 0]);
    });

    test('texts with NUL or that are not UTF-8 are exact, or refused', async () => {
      const instance = await instanceOf('id_str');
      for (const element of [Buffer.from('a\0b'), Buffer.from([0xff, 0xfe]), Buffer.from([0xed, 0xa0, 0x80])]) {
        const tensor: Tensor = { name: 'x', datatype: 'BYTES', shape: [1, 1], data: byteElements(element) };
        const { result } = instance.run([tensor], ['y']);
        if (abilities.carriesAnyBytes) expect(Buffer.compare((await result)[0]!.data, tensor.data)).toBe(0);
        else await expectError(result, 'INVALID_ARGUMENT', /input x: element 0 .* alters/);
      }
    });

    test('outputs come in the order asked for, and only those', async () => {
      const instance = await instanceOf('simple');
      const both = await instance.run(simpleInputs(5, 3), ['OUTPUT1', 'OUTPUT0']).result;
      expect(both.map((tensor) => [tensor.name, i32Of(tensor.data)[0]])).toEqual([
        ['OUTPUT1', 2],
        ['OUTPUT0', 8],
      ]);
      const one = await instance.run(simpleInputs(5, 3), ['OUTPUT1']).result;
      expect(one.map((tensor) => tensor.name)).toEqual(['OUTPUT1']);
    });

    test('inputs may come in any order', async () => {
      const instance = await instanceOf('simple');
      const [y] = await instance.run(simpleInputs(5, 3).reverse(), ['OUTPUT1']).result;
      expect(i32Of(y!.data)[0]).toBe(2);
    });

    test('the shape is what the model gave, whatever its file declares', async () => {
      const instance = await instanceOf(write('liar', graphs.positions));
      for (const [values, found] of [
        [[1, 0, 2, 0], 2],
        [[1, 1, 1, 1], 4],
        [[0, 0, 0, 0], 0],
      ] as const) {
        const [y] = await instance.run([fp32('x', [4], ...values)], ['y']).result;
        expect(y!.shape).toEqual([1, found]);
        expect(y!.data.byteLength).toBe(8 * found);
      }
    });

    test.runIf(abilities.takesOptionalInputs)('an input with a default may be left out or given', async () => {
      const loaded = await load('two_in_opt');
      expect(loaded.inputs.map((tensor) => tensor.name)).toEqual(['a']);
      expect(loaded.optionalInputs?.map((tensor) => tensor.name)).toEqual(['b']);
      const instance = await loaded.createInstance();
      const without = await instance.run([fp32('a', [1, 2], 1, 2)], ['y']).result;
      const given = await instance.run([fp32('a', [1, 2], 1, 2), fp32('b', [1, 2], 10, 20)], ['y']).result;
      expect([f32Of(without[0]!.data), f32Of(given[0]!.data)]).toEqual([
        [1, 2],
        [11, 22],
      ]);
      await instance.close();
    });
  });

  describe('refusals', () => {
    const refused: [string, Tensor[], string[], RegExp][] = [
      ['an unknown input', [int64('z', [1, 1], 1)], ['y'], /unknown input z; the model file has x/],
      ['an input given twice', [int64('x', [1, 1], 1), int64('x', [1, 1], 1)], ['y'], /input x is given twice/],
      ['a missing input', [], ['y'], /missing input x/],
      ['an unknown output', [int64('x', [1, 1], 1)], ['z'], /unknown output z; the model file has y/],
      ['an output asked for twice', [int64('x', [1, 1], 1)], ['y', 'y'], /output y is asked for twice/],
      ['no output at all', [int64('x', [1, 1], 1)], [], /no output is asked for/],
      ['another datatype', [fp32('x', [1, 1], 1)], ['y'], /input x: expected datatype INT64, got FP32/],
      ['another rank', [int64('x', [1], 1)], ['y'], /Invalid rank for input: x Got: 1 Expected: 2/],
      [
        'another dimension',
        [int64('x', [1, 2], 1, 2)],
        ['y'],
        /Got invalid dimensions for input: x .*Got: 2 Expected: 1/,
      ],
      [
        'data that does not fit the shape',
        [{ name: 'x', datatype: 'INT64', shape: [2, 1], data: i64(1) }],
        ['y'],
        /input x: expected 16 bytes, got 8/,
      ],
      ['a negative dimension', [int64('x', [-1, 1], 1)], ['y'], /integers from 0 up/],
    ];
    test.each(refused)('%s is refused and the next run is good', async (_, inputs, outputs, message) => {
      const instance = await instanceOf('div_int');
      await expectError(instance.run(inputs, outputs).result, 'INVALID_ARGUMENT', message);
      const [y] = await instance.run([int64('x', [1, 1], 3)], ['y']).result;
      expect(i64Of(y!.data)).toEqual([103n]);
    });

    test('an error while the model runs is told, and the next run is good', async () => {
      const instance = await instanceOf('div_int');
      const code = abilities.knowsErrorCodes ? 'INVALID_ARGUMENT' : 'INTERNAL';
      for (let i = 0; i < 3; i++) {
        await expectError(instance.run([int64('x', [2, 1], 1, 40)], ['y']).result, code, /out of data bounds, idx=40/);
        const [y] = await instance.run([int64('x', [2, 1], 1, 4)], ['y']).result;
        expect(i64Of(y!.data)).toEqual([101n, 104n]);
      }
    });

    test('an error while the model runs does not show where ONNX Runtime was built', async () => {
      const loaded = await backend.load({ ...options(pathOf(write('reshape', graphs.reshape))) });
      const instance = await loaded.createInstance();
      const error = await errorOf(instance.run([fp32('x', [2, 4], 1, 2, 3, 4, 5, 6, 7, 8)], ['y']).result);
      expect(error.message).toMatch(/Input shape:\{2,4\}, requested shape:\{1,4\}/);
      expect(error.message).not.toMatch(/[/\\]|\.(cc|h)\b/);
      await instance.close();
      await loaded.close();
    });

    test('a second run on a busy instance is refused and the first is not hurt', async () => {
      const instance = await instanceOf('slow');
      const first = instance.run([int64('x', [1, 1], 1)], ['y']);
      await expectError(instance.run([int64('x', [1, 1], 1)], ['y']).result, 'INTERNAL', /busy/);
      expect(i64Of((await first.result)[0]!.data)).toEqual([1n]);
    });

    test('an output that is not a tensor is refused', async () => {
      const loaded = await backend.load(options(pathOf(write('sequence', graphs.sequence))));
      expect(loaded.outputs.map(({ name, datatype }) => [name, datatype])).toEqual([
        ['y', 'FP32'],
        ['s', undefined],
      ]);
      const instance = await loaded.createInstance();
      await expectError(instance.run([fp32('x', [2], 1, 2)], ['s']).result, 'INVALID_ARGUMENT', /output s is of type/);
      expect(f32Of((await instance.run([fp32('x', [2], 1, 2)], ['y']).result)[0]!.data)).toEqual([1, 2]);
      await instance.close();
      await loaded.close();
    });
  });

  describe('side by side', () => {
    test('instances of one model run at once and never mix their data', async () => {
      const loaded = await load('rowsum');
      const instances = await Promise.all(Array.from({ length: 4 }, () => loaded.createInstance()));
      await Promise.all(
        instances.map(async (instance, caller) => {
          for (let i = 0; i < 50; i++) {
            const rows = 1 + (i % 3);
            const values = Array.from({ length: rows * 4 }, (_, n) => caller * 1000 + i + Math.floor(n / 4));
            const [y] = await instance.run([fp32('x', [rows, 4], ...values)], ['y']).result;
            expect(f32Of(y!.data)).toEqual(Array.from({ length: rows }, (_, row) => 4 * (caller * 1000 + i + row)));
          }
        }),
      );
      await Promise.all(instances.map((instance) => instance.close()));
    });

    test('the event loop goes on during a long run', async () => {
      const instance = await instanceOf('slow');
      let ticks = 0;
      const timer = setInterval(() => ticks++, 1);
      await instance.run([int64('x', [1, 1], 4)], ['y']).result;
      clearInterval(timer);
      expect(ticks).toBeGreaterThan(1);
    });

    test.runIf(abilities.stopsRuns)('a long run ends when it is stopped, and the next run is good', async () => {
      const instance = await instanceOf('slow');
      for (const whenStopped of ['at once', 'under way']) {
        const run = instance.run([int64('x', [1, 1], 1_000_000)], ['y']);
        if (whenStopped === 'under way') await new Promise((resolve) => setTimeout(resolve, 20));
        run.stop();
        run.stop();
        await expectError(run.result, 'CANCELLED', /stopped/);
        const [y] = await instance.run([int64('x', [1, 1], 1)], ['y']).result;
        expect(i64Of(y!.data)).toEqual([1n]);
      }
    });

    test.runIf(!abilities.stopsRuns)('a run that cannot be stopped goes on to its end', async () => {
      const instance = await instanceOf('slow');
      const run = instance.run([int64('x', [1, 1], 2)], ['y']);
      run.stop();
      expect(i64Of((await run.result)[0]!.data)).toEqual([2n]);
    });

    test('stopping a run that is over does not touch the next', async () => {
      const instance = await instanceOf('slow');
      const first = instance.run([int64('x', [1, 1], 0)], ['y']);
      await first.result;
      const second = instance.run([int64('x', [1, 1], 1)], ['y']);
      first.stop();
      expect(i64Of((await second.result)[0]!.data)).toEqual([1n]);
    });

    test('closing waits for the run under way, which is answered', async () => {
      const loaded = await backend.load(options(pathOf('slow')));
      const instance = await loaded.createInstance();
      const order: string[] = [];
      const run = instance.run([int64('x', [1, 1], 2)], ['y']).result.then((outputs) => {
        order.push('answered');
        return outputs;
      });
      const closed = instance.close().then(() => order.push('closed'));
      const refused = errorOf(instance.run([int64('x', [1, 1], 1)], ['y']).result);
      expect(i64Of((await run)[0]!.data)).toEqual([2n]);
      expect((await refused).message).toMatch(/closed/);
      await closed;
      expect(order).toEqual(['answered', 'closed']);
      await instance.close();
      await loaded.close();
      await loaded.close();
    });

    test('a model can be loaded and closed again and again', async () => {
      for (let i = 0; i < 5; i++) {
        const loaded = await backend.load(options(pathOf('mlp')));
        const instances = [await loaded.createInstance(), await loaded.createInstance()];
        const input = fp32('x', [1, 32], ...Array.from({ length: 32 }, (_, n) => n));
        const answers = await Promise.all(instances.map((instance) => instance.run([input], ['y']).result));
        expect(Buffer.compare(answers[0]![0]!.data, answers[1]![0]!.data)).toBe(0);
        for (const instance of instances) await instance.close();
        await loaded.close();
      }
    });
  });

  describe('model files', () => {
    test('names, datatypes, shapes and names of dimensions are read', async () => {
      const loaded = await backend.load(options(pathOf('fixed1')));
      expect(loaded.inputs).toEqual([
        { name: 'x', datatype: 'FP32', typeName: 'tensor(float)', shape: [-1, 4], symbols: ['batch', ''] },
      ]);
      expect(loaded.outputs).toMatchObject([{ name: 'y', shape: [1, 4] }]);
      await loaded.close();
    });

    test.runIf(!abilities.carriesBf16)(
      'a model of a type that cannot be carried is refused with the reason',
      async () => {
        await expectError(
          backend.load(options(pathOf('id_bf16'))),
          'INVALID_ARGUMENT',
          /tensor\(bfloat16\).* cannot carry/,
        );
      },
    );

    test.each([
      ['garbage', Buffer.from('this is not a model'), /protobuf parsing failed/i],
      ['an empty file', Buffer.alloc(0), /does not have a graph|protobuf parsing failed/i],
      ['no file', undefined, /doesn't exist/],
    ])('%s is an error that names no path, every time', async (name, content, message) => {
      const path = join(folder, 'broken', name, 'model.onnx');
      mkdirSync(join(folder, 'broken', name), { recursive: true });
      if (content) writeFileSync(path, content);
      const first = await errorOf(backend.load(options(path)));
      const second = await errorOf(backend.load(options(path)));
      expect(first).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) as string });
      expect(first.message).not.toContain(folder);
      expect(second.message).toBe(first.message);
    });

    test.each(['../secret.bin', '../../secret.bin', '/etc/hostname', 'link.bin', 'missing.bin', 'linked/secret.bin'])(
      'external data at %s is refused',
      async (location) => {
        const path = externalModel(location);
        const error = await errorOf(backend.load(options(path)));
        expect(error.code).toBe('INVALID_ARGUMENT');
        expect(error.message).not.toContain(folder);
        expect(error.message).not.toContain('/etc');
      },
    );

    test('external data beside the model is read', async () => {
      const loaded = await backend.load(options(externalModel('weights.bin')));
      const instance = await loaded.createInstance();
      expect(f32Of((await instance.run([fp32('x', [1, 2], 1, 2)], ['y']).result)[0]!.data)).toEqual([41, 42]);
      await instance.close();
      await loaded.close();
    });

    function externalModel(location: string): string {
      const root = mkdtempSync(join(folder, 'external-'));
      const model = join(root, '1');
      writeModel(join(model, 'model.onnx'), graphs.withExternalData(location));
      writeFileSync(join(root, 'secret.bin'), f32(40, 40));
      writeFileSync(join(folder, 'secret.bin'), f32(40, 40));
      writeFileSync(join(model, 'weights.bin'), f32(40, 40));
      symlinkSync(join(root, 'secret.bin'), join(model, 'link.bin'));
      symlinkSync(root, join(model, 'linked'));
      return join(model, 'model.onnx');
    }
  });
}

function options(path: string): LoadOptions {
  return {
    path,
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    enableCpuMemArena: true,
    enableMemPattern: true,
  };
}

/** Tensors [rows, columns] with any bits, at any place of a larger buffer. */
function tensorOf(datatype: Datatype, anyBytes: boolean): fc.Arbitrary<Tensor> {
  const dims = fc.tuple(fc.nat({ max: 4 }), fc.nat({ max: 6 }));
  return dims.chain(([rows, columns]) =>
    fc.tuple(dataOf(datatype, rows * columns, anyBytes), fc.nat({ max: 9 })).map(([data, offset]): Tensor => {
      const memory = new Uint8Array(data.byteLength + offset);
      memory.set(data, offset);
      return { name: 'x', datatype, shape: [rows, columns], data: memory.subarray(offset) };
    }),
  );
}

function dataOf(datatype: Datatype, count: number, anyBytes: boolean): fc.Arbitrary<Uint8Array> {
  const exactly = { minLength: count, maxLength: count };
  if (datatype === 'BYTES') {
    const element: fc.Arbitrary<string | Uint8Array> = anyBytes
      ? fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.string({ unit: 'grapheme' }))
      : fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\0', ' '));
    return fc.array(element, exactly).map((elements) => byteElements(...elements));
  }
  if (datatype === 'BOOL') return fc.array(fc.boolean(), exactly).map((values) => Uint8Array.from(values, Number));
  const byteLength = count * byteSizeOf(datatype);
  return fc.uint8Array({ minLength: byteLength, maxLength: byteLength });
}

function simpleInputs(a: number, b: number): Tensor[] {
  const sixteen = (value: number) => i32(...Array.from({ length: 16 }, () => value));
  return [
    { name: 'INPUT0', datatype: 'INT32', shape: [1, 16], data: sixteen(a) },
    { name: 'INPUT1', datatype: 'INT32', shape: [1, 16], data: sixteen(b) },
  ];
}

function fp32(name: string, shape: readonly number[], ...values: readonly number[]): Tensor {
  return { name, datatype: 'FP32', shape, data: f32(...values) };
}

function int64(name: string, shape: readonly number[], ...values: readonly number[]): Tensor {
  return { name, datatype: 'INT64', shape, data: i64(...values) };
}

async function expectError(promise: Promise<unknown>, code: string, message: RegExp): Promise<void> {
  const error = await errorOf(promise);
  expect({ code: error.code, message: error.message }).toEqual({
    code,
    message: expect.stringMatching(message) as string,
  });
}

async function errorOf(promise: Promise<unknown>): Promise<InferError> {
  const outcome = await promise.then(
    () => 'no error',
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(InferError);
  return outcome as InferError;
}
