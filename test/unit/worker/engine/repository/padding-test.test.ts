import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { PaddingPlan } from '../../../../../worker/engine/batch/padding-plan.ts';
import type { ModelInstance } from '../../../../../worker/engine/instance/instance.ts';
import { testPadding } from '../../../../../worker/engine/repository/padding-test.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { floats, floatsOf } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

const zero = new Uint8Array(1);

function planOf(padding: Partial<PaddingPlan> = {}, maxRows = 8) {
  return modelPlan({
    maxRows,
    inputs: [
      tensorPlan('x', 'FP32', [-1, -1]),
      tensorPlan('keep', 'FP32', [-1, -1], { optional: true }),
      tensorPlan('other', 'FP32', [-1, -1], { optional: true }),
    ],
    outputs: [tensorPlan('y', 'FP32', [-1])],
    padding: {
      active: true,
      inputs: [{ axes: [1], role: 'data', fill: zero }, { axes: [1], role: 'mask', fill: zero }, undefined],
      outputs: new Map(),
      buckets: undefined,
      roundUp: false,
      selfTest: true,
      ...padding,
    },
  });
}

/** An instance that answers each row with what `model` makes of its numbers and its mask; `seen` keeps its inputs. */
function instanceOf(
  model: (values: number[], mask: number[]) => number,
  seen: (readonly Tensor[])[] = [],
): ModelInstance {
  return {
    run(inputs) {
      seen.push(inputs.map((tensor) => ({ ...tensor, data: tensor.data.slice() })));
      const [x, keep] = inputs;
      const [rows = 0, length = 0] = x!.shape;
      const part = (tensor: Tensor, row: number) => [...floatsOf(tensor)].slice(row * length, (row + 1) * length);
      const result = Promise.resolve().then(() => [
        floats(
          'y',
          [rows],
          Array.from({ length: rows }, (_, row) => model(part(x!, row), part(keep!, row))),
        ),
      ]);
      return { result, stop: () => {} };
    },
    close: () => Promise.resolve(),
  };
}

const test = (instance: ModelInstance, plan = planOf(), tolerance = 1e-3) =>
  testPadding(plan, plan.padding!, instance, new FakeClock(), tolerance);

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
const masked = (values: number[], mask: number[]) => sum(values.map((value, at) => value * mask[at]!)) / sum(mask);

describe('testPadding', () => {
  it('is content with a model that minds its mask, of which it sends ones', async () => {
    const seen: (readonly Tensor[])[] = [];
    expect(await test(instanceOf(masked, seen))).toMatchObject({ kind: 'fine' });
    expect(seen.map(([x]) => x!.shape)).toEqual([
      [1, 5],
      [1, 8],
      [2, 8],
    ]);
    expect([...floatsOf(seen[2]![1]!)]).toEqual([1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
    expect(seen[0]!.map(({ name }) => name)).toEqual(['x', 'keep']); // optional ones that are not padded stay away
  });

  it('finds a model that does not, and says by how much', async () => {
    const mean = instanceOf((values) => sum(values) / values.length);
    const found = await test(mean);
    expect(found).toMatchObject({
      kind: 'broken',
      reason: expect.stringMatching(/^its output 'y' differs by 0\.\d+/) as string,
    });
    expect(await test(mean, planOf(), 1)).toMatchObject({ kind: 'fine' });
  });

  it('finds a model that fails with padding only', async () => {
    const picky = instanceOf((values, mask) => {
      if (mask.includes(0)) throw new InferError('INVALID_ARGUMENT', 'no zeros');
      return sum(values);
    });
    expect(await test(picky)).toEqual({
      kind: 'broken',
      reason: 'requests run alone, and fail when they are padded: no zeros',
    });
  });

  it('tries longer requests where short ones are refused, and knows nothing where all are', async () => {
    const seen: (readonly Tensor[])[] = [];
    const long = instanceOf((values, mask) => {
      if (values.length < 32) throw new InferError('INVALID_ARGUMENT', 'too short');
      return masked(values, mask);
    }, seen);
    expect(await test(long)).toMatchObject({ kind: 'fine' });
    expect(seen.at(-1)![0]!.shape).toEqual([2, 64]);
    const never = instanceOf(() => {
      throw new InferError('INVALID_ARGUMENT', 'never');
    });
    expect(await test(never)).toEqual({ kind: 'unknown', reason: 'never' });
  });

  it('tries the longest bucket where every run is rounded up, also for a model of one row', async () => {
    const limited = instanceOf((values, mask) => {
      if (values.length > 128) throw new InferError('INVALID_ARGUMENT', 'too long');
      return masked(values, mask);
    });
    const rounded = { roundUp: true, buckets: [16, 128] };
    expect(await test(limited, planOf(rounded))).toMatchObject({ kind: 'fine' });
    expect(await test(limited, planOf(rounded, 1))).toMatchObject({ kind: 'fine' });
    expect(await test(limited, planOf({ roundUp: true, buckets: [16, 129] }))).toEqual({
      kind: 'broken',
      reason: 'with the length 129: requests run alone, and fail when they are padded: too long',
    });
  });
});
