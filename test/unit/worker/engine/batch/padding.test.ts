import { describe, expect, it } from 'vitest';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { groupKey } from '../../../../../worker/engine/batch/group-key.ts';
import { orderInputs } from '../../../../../worker/engine/batch/order-inputs.ts';
import { createAssembler } from '../../../../../worker/engine/batch/padded-assemble.ts';
import { splitBatch } from '../../../../../worker/engine/batch/padded-split.ts';
import type { PaddingPlan } from '../../../../../worker/engine/batch/padding-plan.ts';
import { runLengthOf } from '../../../../../worker/engine/batch/padding-plan.ts';
import { RowMismatch } from '../../../../../worker/engine/batch/split.ts';
import { floats, floatsOf } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

const zero = new Uint8Array(1);

function planOf(padding: Partial<PaddingPlan> = {}, mask: 'mask' | 'generated_mask' = 'mask') {
  return modelPlan({
    inputs: [tensorPlan('x', 'FP32', [-1, -1]), tensorPlan('mask', 'FP32', [-1, -1], { optional: mask === 'mask' })],
    outputs: [tensorPlan('y', 'FP32', [-1, -1]), tensorPlan('sum', 'FP32', [-1])],
    padding: {
      active: true,
      inputs: [
        { axes: [1], role: 'data', fill: zero },
        { axes: [1], role: mask, fill: zero },
      ],
      outputs: new Map([['y', [1]]]),
      buckets: undefined,
      roundUp: false,
      selfTest: true,
      ...padding,
    },
  });
}

const x = (...values: number[]) => floats('x', [1, values.length], values);
const mask = (length: number) => floats('mask', [1, length], Array<number>(length).fill(1));
const member = (...inputs: Tensor[]) => ({ inputs, rows: 1, request: { outputs: [] as string[] } });

describe('the length of a run', () => {
  it('is that of its longest request', () => {
    expect(runLengthOf(planOf(), planOf().padding!, [member(x(1), mask(1)), member(x(1, 2), mask(2))])).toBe(2);
  });

  it('is nobody’s business where nothing needs padding', () => {
    const plan = planOf();
    expect(runLengthOf(plan, plan.padding!, [member(x(1, 2), mask(2))])).toBe(0);
    expect(runLengthOf(plan, plan.padding!, [member(x(1, 2), mask(2)), member(x(3, 4), mask(2))])).toBe(0);
  });

  it('is that of the bucket for a lone request too, where the config asks for it', () => {
    const plan = planOf({ roundUp: true, buckets: [4, 16] });
    expect(runLengthOf(plan, plan.padding!, [member(x(1, 2), mask(2))])).toBe(4);
    expect(runLengthOf(plan, plan.padding!, [member(x(1, 2, 3, 4), mask(4))])).toBe(0);
    expect(runLengthOf(plan, plan.padding!, [member(x(...Array<number>(17).fill(1)), mask(17))])).toBe(0);
  });
});

describe('a request that may not be padded', () => {
  it.each([
    ['its inputs differ in length', [x(1, 2), mask(3)]],
    ['its mask is left out', [x(1, 2)]],
    ['it is empty', [x(), mask(0)]],
    ['its pixels stand for numbers', [{ ...x(1, 2), pixels: {} as NonNullable<Tensor['pixels']> }, mask(2)]],
  ])('shares runs with requests of its own shapes only: %s', (_, inputs) => {
    const plan = planOf();
    expect(groupKey(plan, inputs)).toBe(groupKey({ ...plan, padding: undefined }, inputs));
    expect(runLengthOf(plan, plan.padding!, [member(...inputs)])).toBe(0);
  });

  it('is every one while padding is switched off', () => {
    const plan = planOf({ active: false, roundUp: true });
    expect(groupKey(plan, [x(1, 2), mask(2)])).not.toBe(groupKey(plan, [x(1, 2, 3), mask(3)]));
    expect(runLengthOf(plan, plan.padding!, [member(x(1, 2), mask(2))])).toBe(0);
  });
});

describe('a generated mask', () => {
  const plan = planOf({}, 'generated_mask');

  it('is ones of the length of the request', () => {
    const inputs = orderInputs(plan, [floats('x', [2, 3], [1, 2, 3, 4, 5, 6])]);
    expect(inputs.map(({ name, shape }) => [name, shape])).toEqual([
      ['x', [2, 3]],
      ['mask', [2, 3]],
    ]);
    expect([...floatsOf(inputs[1]!)]).toEqual([1, 1, 1, 1, 1, 1]);
  });

  it('is zeros where its row is padded, and shares a run with masks that clients sent', () => {
    const made = orderInputs(plan, [x(5)]);
    const sent = orderInputs(plan, [floats('mask', [1, 3], [1, 0, 1]), x(6, 7, 8)]);
    expect(groupKey(plan, made)).toBe(groupKey(plan, sent));
    const [data, ones] = createAssembler(plan).assemble([member(...made), member(...sent)], 2);
    expect([...floatsOf(data!)]).toEqual([5, 0, 0, 6, 7, 8]);
    expect([...floatsOf(ones!)]).toEqual([1, 0, 0, 1, 0, 1]);
  });

  it('is made up while padding is switched off, as clients rely on it', () => {
    const off = planOf({ active: false }, 'generated_mask');
    expect(orderInputs(off, [x(1, 2)])).toHaveLength(2);
  });
});

describe('splitBatch', () => {
  const plan = planOf();
  const members = [member(x(1), mask(1)), member(x(2, 3), mask(2))];

  it('cuts listed outputs and leaves the others whole; rows in full length are views', () => {
    const y = floats('y', [2, 2], [1, 0, 2, 3]);
    const split = splitBatch(plan, [y, floats('sum', [2], [1, 5])], members);
    expect(split.map((tensors) => tensors.map((tensor) => [tensor.shape, ...floatsOf(tensor)]))).toEqual([
      [
        [[1, 1], 1],
        [[1], 1],
      ],
      [
        [[1, 2], 2, 3],
        [[1], 5],
      ],
    ]);
    expect(split[1]![0]!.data.buffer).toBe(y.data.buffer);
    expect(split[0]![0]!.data.buffer).not.toBe(y.data.buffer);
  });

  it('refuses an output that has not the length of the run, so that requests run alone again', () => {
    const outputs = [floats('y', [2, 1], [1, 2]), floats('sum', [2], [1, 5])];
    expect(() => splitBatch(plan, outputs, members)).toThrow(RowMismatch);
    expect(() => splitBatch(plan, outputs, members)).toThrow(/output 'y' has the shape \[1,1\]: dimension 1 must be 2/);
  });

  it('pads and cuts by the client’s shapes where the model has others', () => {
    const reshaping = modelPlan({
      inputs: [tensorPlan('x', 'FP32', [-1, -1, 2], { modelShape: [-1, -1, 1, 2] })],
      outputs: [tensorPlan('y', 'FP32', [-1, -1, 2], { modelShape: [-1, -1, 1, 2] })],
      padding: { ...plan.padding!, inputs: [{ axes: [1], role: 'data', fill: zero }] },
    });
    const both = [member(floats('x', [1, 1, 2], [1, 2])), member(floats('x', [1, 2, 2], [3, 4, 5, 6]))];
    const [merged] = createAssembler(reshaping).assemble(both, 2);
    expect(merged!.shape).toEqual([2, 2, 1, 2]);
    expect([...floatsOf(merged!)]).toEqual([1, 2, 0, 0, 3, 4, 5, 6]);
    const split = splitBatch(reshaping, [{ ...merged!, name: 'y' }], both);
    expect(split.map(([tensor]) => tensor!.shape)).toEqual([
      [1, 1, 2],
      [1, 2, 2],
    ]);
    expect([...floatsOf(split[0]![0]!)]).toEqual([1, 2]);
  });
});
