import { describe, expect, it } from 'vitest';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { RowMismatch, splitOutputs, wantedOutputs } from '../../../../../worker/engine/batch/split.ts';
import { floats, floatsOf } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

const plan = modelPlan({ outputs: [tensorPlan('y', 'FP32', [-1, 2]), tensorPlan('z', 'FP32', [-1])] });
const member = (rows: number, ...outputs: string[]) => ({ rows, request: { outputs } });

describe('splitOutputs', () => {
  it('gives each member views of its own rows', () => {
    const y = floats('y', [3, 2], [1, 2, 3, 4, 5, 6]);
    const split = splitOutputs(plan, [y, floats('z', [3], [7, 8, 9])], [member(1), member(2)]);
    expect(split.map((outputs) => outputs.map((tensor) => [tensor.shape, ...floatsOf(tensor)]))).toEqual([
      [
        [[1, 2], 1, 2],
        [[1], 7],
      ],
      [
        [[2, 2], 3, 4, 5, 6],
        [[2], 8, 9],
      ],
    ]);
    expect(split[1]![0]!.data.buffer).toBe(y.data.buffer);
  });

  it('gives each member only the outputs that it asked for, in the order of the config', () => {
    const outputs = [floats('y', [2, 2], [1, 2, 3, 4]), floats('z', [2], [5, 6])];
    const split = splitOutputs(plan, outputs, [member(1, 'z'), member(1, 'z', 'y')]);
    expect(split.map((tensors) => tensors.map(({ name }) => name))).toEqual([['z'], ['y', 'z']]);
  });

  it('cuts BYTES between elements', () => {
    const texts = modelPlan({ outputs: [tensorPlan('y', 'BYTES', [-1, 2])] });
    const element = (text: string) => [text.length, 0, 0, 0, ...Buffer.from(text)];
    const data = new Uint8Array(['a', 'bc', '', 'def'].flatMap(element));
    const split = splitOutputs(texts, [{ name: 'y', datatype: 'BYTES', shape: [2, 2], data }], [member(1), member(1)]);
    expect(split.map(([tensor]) => [...tensor!.data])).toEqual([
      [...element('a'), ...element('bc')],
      [...element(''), ...element('def')],
    ]);
  });

  it('gives the client the shape of its dims where the model has another', () => {
    const reshaping = modelPlan({ outputs: [tensorPlan('y', 'FP32', [-1, 1], { modelShape: [-1] })] });
    const together = splitOutputs(reshaping, [floats('y', [3], [1, 2, 3])], [member(1), member(2)]);
    expect(together.map(([tensor]) => tensor!.shape)).toEqual([
      [1, 1],
      [2, 1],
    ]);
    expect(splitOutputs(reshaping, [floats('y', [2], [1, 2])], [member(2)])[0]![0]!.shape).toEqual([2, 1]);
  });

  it('refuses outputs without a row for each row', () => {
    const outputs = [floats('y', [1, 2], [1, 2])];
    expect(() => splitOutputs(plan, outputs, [member(1), member(1)])).toThrow(RowMismatch);
    expect(() => splitOutputs(plan, [floats('y', [1, 2], [1, 2])], [member(2)])).toThrow(/2 rows/);
  });

  it('hands outputs of models without a batch dimension through', () => {
    const unbatched = modelPlan({ batched: false, maxRows: 1, outputs: [tensorPlan('y', 'FP32', [-1])] });
    const output: Tensor = floats('y', [5], [1, 2, 3, 4, 5]);
    expect(splitOutputs(unbatched, [output], [member(1)])).toEqual([[output]]);
  });
});

describe('wantedOutputs', () => {
  it('is every output when a member asks for none by name', () => {
    expect(wantedOutputs(plan, [member(1, 'z'), member(1)])).toEqual(['y', 'z']);
  });

  it('is what the members want together, in the order of the config', () => {
    expect(wantedOutputs(plan, [member(1, 'z'), member(1, 'y')])).toEqual(['y', 'z']);
    expect(wantedOutputs(plan, [member(1, 'z'), member(1, 'z')])).toEqual(['z']);
  });
});
