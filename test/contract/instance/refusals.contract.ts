import { describe, expect, test } from 'vitest';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { f32Of, i64, i64Of } from '../../support/onnx/data.ts';
import { errorOf, expectError } from './errors.ts';
import { fp32, int64 } from './tensors.ts';
import { loadOptions } from '../../support/load-options.ts';
import type { Workbench } from './workbench.ts';
import * as graphs from './graphs.ts';

/** What is refused, and that nothing else suffers from it. */
export function describeRefusals({ abilities, instanceOf, write, pathOf, backend }: Workbench): void {
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
      const loaded = await backend().load({ ...loadOptions(pathOf(write('reshape', graphs.reshape))) });
      const instance = await loaded.createInstance();
      const error = await errorOf(instance.run([fp32('x', [2, 4], 1, 2, 3, 4, 5, 6, 7, 8)], ['y']).result);
      expect(error.message).toMatch(/Input shape:\{2,4\}, requested shape:\{1,4\}/);
      expect(error.message).not.toMatch(/[/\\]|\.(cc|h)\b/);
      await instance.close();
      await loaded.close();
    });

    test('inputs whose equally named dimensions differ are named when the run fails', async () => {
      const instance = await instanceOf(write('sum', graphs.sum));
      const unequal = instance.run([fp32('a', [1, 2], 1, 2), fp32('b', [1, 3], 1, 2, 3)], ['y']).result;
      const message = /^inputs a \[1,2\] and b \[1,3\] have different sizes of "length", which must be equal$/;
      await expectError(unequal, 'INVALID_ARGUMENT', message);
      const [y] = await instance.run([fp32('a', [1, 2], 1, 2), fp32('b', [1, 2], 3, 4)], ['y']).result;
      expect(f32Of(y!.data)).toEqual([4, 6]);
    });

    test('equally named dimensions may differ where the model runs all the same', async () => {
      const instance = await instanceOf(write('careless', graphs.careless));
      const [y] = await instance.run([fp32('a', [1], 1), fp32('b', [2], 2, 3)], ['y']).result;
      expect(f32Of(y!.data)).toEqual([1, 2, 3]);
    });

    test('a run that needs more memory than there is fails alone', async () => {
      const instance = await instanceOf(write('zeros', graphs.zeros));
      const huge = instance.run([int64('x', [1], 2 ** 44)], ['y']).result;
      await expectError(huge, 'RESOURCE_EXHAUSTED', /allocat/);
      const [y] = await instance.run([int64('x', [1], 3)], ['y']).result;
      expect(f32Of(y!.data)).toEqual([0, 0, 0]);
    });

    test('a second run on a busy instance is refused and the first is not hurt', async () => {
      const instance = await instanceOf('slow');
      const first = instance.run([int64('x', [1, 1], 1)], ['y']);
      await expectError(instance.run([int64('x', [1, 1], 1)], ['y']).result, 'INTERNAL', /busy/);
      expect(i64Of((await first.result)[0]!.data)).toEqual([1n]);
    });

    test('an output that is not a tensor is refused', async () => {
      const loaded = await backend().load(loadOptions(pathOf(write('sequence', graphs.sequence))));
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
}
