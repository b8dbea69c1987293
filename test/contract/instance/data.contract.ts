import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DATATYPES, type Datatype } from '../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { IDENTITY_MODELS } from '../../fixtures/make-models.ts';
import { byteElements, f32Of, i32Of } from '../../support/onnx/data.ts';
import { expectError } from './errors.ts';
import { fp32, simpleInputs, tensorOf } from './tensors.ts';
import type { Workbench } from './workbench.ts';
import * as graphs from './graphs.ts';

/** What goes in and comes out. */
export function describeData({ abilities, load, instanceOf, write }: Workbench): void {
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

    test('a branch may give another shape than the file declares', async () => {
      const instance = await instanceOf(write('branches', graphs.branches));
      const twice = (value: number): Tensor => ({
        name: 'twice',
        datatype: 'BOOL',
        shape: [],
        data: Uint8Array.of(value),
      });
      for (const [flag, expected] of [
        [0, [1, 2]],
        [1, [1, 2, 1, 2]],
        [0, [1, 2]],
      ] as const) {
        const [y] = await instance.run([fp32('x', [2], 1, 2), twice(flag)], ['y']).result;
        expect([y!.shape, f32Of(y!.data)]).toEqual([[expected.length], expected]);
      }
    });

    test('outputs that no node makes have their values, too', async () => {
      const instance = await instanceOf(write('handed', graphs.handedThrough));
      for (const values of [
        [1, 2, 3],
        [4, 5],
      ]) {
        const outputs = await instance.run([fp32('x', [values.length], ...values)], ['x', 'c', 'k', 'y', 'z']).result;
        expect(outputs.map((tensor) => f32Of(tensor.data))).toEqual([values, [7, 8], [14, 16], values, values]);
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
}
