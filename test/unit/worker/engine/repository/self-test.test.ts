import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { ModelInstance } from '../../../../../worker/engine/instance/instance.ts';
import { testBatchDimension } from '../../../../../worker/engine/repository/self-test.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { floats, floatsOf } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

/** An instance that answers at once with what `model` makes of its first input. */
function instanceOf(model: (values: number[], shape: readonly number[]) => Tensor): ModelInstance {
  return {
    run([x]) {
      const result = Promise.resolve().then(() => [model([...floatsOf(x!)], x!.shape)]);
      return { result, stop: () => {} };
    },
    close: () => Promise.resolve(),
  };
}

const test = (instance: ModelInstance, plan = modelPlan()) => testBatchDimension(plan, instance, new FakeClock());

describe('testBatchDimension', () => {
  it('finds nothing wrong with a model that treats each row for itself', async () => {
    expect(
      await test(
        instanceOf((values, shape) =>
          floats(
            'y',
            shape,
            values.map((v) => v * 3 + 1),
          ),
        ),
      ),
    ).toEqual({
      kind: 'fine',
    });
  });

  it('lets rows move a little with their company, as quantised models do', async () => {
    const nudged = instanceOf((values, shape) =>
      floats(
        'y',
        shape,
        values.map((v) => v + 0.02 * shape[0]!),
      ),
    );
    expect(await test(nudged)).toEqual({ kind: 'fine' });
  });

  it('finds a model that answers one row whatever it gets', async () => {
    const first = instanceOf((values, [, columns]) => floats('y', [1, columns!], values.slice(0, columns)));
    expect(await test(first)).toMatchObject({ kind: 'broken', reason: expect.stringContaining('2 row(s)') as string });
  });

  it('finds a model that repeats its first row', async () => {
    const repeating = instanceOf((values, shape) =>
      floats(
        'y',
        shape,
        values.map((_, i) => values[i % shape[1]!]!),
      ),
    );
    expect(await test(repeating)).toMatchObject({ kind: 'broken' });
  });

  it('finds a model that takes one row only', async () => {
    const strict = instanceOf((values, shape) => {
      if (shape[0] !== 1) throw new InferError('INVALID_ARGUMENT', 'cannot reshape');
      return floats('y', shape, values);
    });
    expect(await test(strict)).toMatchObject({
      kind: 'broken',
      reason: expect.stringContaining('cannot reshape') as string,
    });
  });

  it('tries a larger length where a small one is refused', async () => {
    const picky = instanceOf((values, shape) => {
      if (shape[1]! < 32) throw new InferError('INVALID_ARGUMENT', 'too small');
      return floats('y', shape, values);
    });
    expect(await test(picky)).toEqual({ kind: 'fine' });
  });

  it('says nothing about a model that does not take made-up input', async () => {
    const refusing = instanceOf(() => {
      throw new InferError('INVALID_ARGUMENT', 'no such token');
    });
    expect(await test(refusing)).toEqual({ kind: 'unknown', reason: 'no such token' });
  });

  it('takes answers that are no numbers for equal', async () => {
    const nan = instanceOf((values, shape) =>
      floats(
        'y',
        shape,
        values.map(() => NaN),
      ),
    );
    expect(await test(nan)).toEqual({ kind: 'fine' });
  });

  it('gives whole numbers of 0 and 1 to the model, in every datatype', async () => {
    const seen = new Set<number>();
    const instance: ModelInstance = {
      run([x]) {
        const values = new BigInt64Array(new Uint8Array(x!.data).buffer);
        for (const value of values) seen.add(Number(value));
        return { result: Promise.resolve([{ ...x!, name: 'y' }]), stop: () => {} };
      },
      close: () => Promise.resolve(),
    };
    const plan = modelPlan({ inputs: [tensorPlan('x', 'INT64', [-1, -1])] });
    expect(await test(instance, plan)).toEqual({ kind: 'fine' });
    expect([...seen].toSorted()).toEqual([0, 1]);
  });
});
