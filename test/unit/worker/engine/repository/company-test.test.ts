import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../../shared/errors.ts';
import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { ModelInstance } from '../../../../../worker/engine/instance/instance.ts';
import { testCompany } from '../../../../../worker/engine/repository/company-test.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { floats, floatsOf } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

function instanceOf(model: (inputs: readonly Tensor[]) => Tensor[]): ModelInstance {
  return {
    run: (inputs) => ({ result: Promise.resolve().then(() => model(inputs)), stop: () => {} }),
    close: () => Promise.resolve(),
  };
}

/** Makes something of the numbers of the first input. */
const ofValues = (map: (values: number[]) => number[]) =>
  instanceOf(([x]) => [floats('y', x!.shape, map([...floatsOf(x!)]))]);

/** Numbers in steps of 1/127 of the largest of all of them, as dynamic quantisation leaves them. */
const quantised = ofValues((values) => {
  const scale = Math.max(...values.map(Math.abs)) / 127;
  return values.map((value) => Math.round(value / scale) * scale);
});

const test = (instance: ModelInstance, plan = modelPlan(), clock = new FakeClock()) =>
  testCompany(plan, instance, clock, 0.02);

describe('testCompany', () => {
  it('measures no difference where each row stands for itself', async () => {
    const difference = { relative: 0, maxAbs: 0, cosine: 1 };
    expect(await test(ofValues((values) => values.map((v) => v * 3 + 1)))).toEqual({ kind: 'measured', difference });
  });

  it('measures the difference where one scale is taken over the whole batch', async () => {
    const result = await test(quantised);
    if (result.kind !== 'measured') throw new Error(result.reason);
    expect(result.difference.relative).toBeGreaterThan(0.05);
    expect(result.difference.cosine).toBeLessThan(0.999);
    expect(result.difference.maxAbs).toBeGreaterThan(0);
  });

  it('makes little of sums in another order', async () => {
    const result = await test(ofValues((values) => values.map((v) => v + 1e-7 * v * values.length)));
    expect(result).toMatchObject({ kind: 'measured' });
    if (result.kind === 'measured') expect(result.difference.relative).toBeLessThan(1e-4);
  });

  it('gives as many rows as the model takes', async () => {
    const seen = new Set<number>();
    const watched = instanceOf(([x]) => [(seen.add(x!.shape[0]!), { ...x!, name: 'y' })]);
    await test(watched, modelPlan({ maxRows: 2 }));
    expect([...seen]).toEqual([1, 2]);
  });

  it('makes the same rows each time', async () => {
    const takes = async () => {
      const seen: number[][] = [];
      await test(instanceOf(([x]) => [(seen.push([...floatsOf(x!)]), { ...x!, name: 'y' })]));
      return seen;
    };
    expect(await takes()).toEqual(await takes());
  });

  it('fills masks with ones, types with zeros, and ids with what the model takes', async () => {
    const seen = new Map<string, Set<number>>();
    const picky = instanceOf((inputs) => {
      for (const { name, data } of inputs) {
        const values = [...new BigInt64Array(new Uint8Array(data).buffer)].map(Number);
        if (name === 'input_ids' && values.some((id) => id >= 150))
          throw new InferError('INVALID_ARGUMENT', 'no such id');
        const all = seen.get(name) ?? new Set();
        values.forEach((value) => all.add(value));
        seen.set(name, all);
      }
      return [floats('y', [inputs[0]!.shape[0]!, 1], new Array<number>(inputs[0]!.shape[0]!).fill(1))];
    });
    const inputs = ['input_ids', 'attention_mask', 'token_type_ids'].map((n) => tensorPlan(n, 'INT64', [-1, -1]));
    expect(await test(picky, modelPlan({ inputs }))).toMatchObject({ kind: 'measured' });
    expect([...seen.get('attention_mask')!].toSorted()).toEqual([0, 1]);
    expect([...seen.get('token_type_ids')!]).toEqual([0]);
    expect(seen.get('input_ids')!.size).toBeGreaterThan(5);
    expect(Math.max(...seen.get('input_ids')!)).toBeLessThan(100);
  });

  it.each(['FP16', 'BF16', 'FP64', 'INT8', 'UINT8', 'BOOL', 'INT32', 'BYTES'] as const)(
    'makes rows of %s',
    async (datatype: Datatype) => {
      const echo = instanceOf(([x]) => [{ ...x!, name: 'y' }]);
      const result = await test(echo, modelPlan({ inputs: [tensorPlan('x', datatype, [-1, 3])] }));
      const numbers = datatype !== 'BYTES' && datatype !== 'BOOL';
      if (!numbers) expect(result).toEqual({ kind: 'unknown', reason: 'its answers are no numbers' });
      else expect(result).toMatchObject({ kind: 'measured', difference: { relative: 0 } });
    },
  );

  it('does not take chance for company', async () => {
    const dice = ofValues((values) => values.map(() => Math.random()));
    expect(await test(dice)).toEqual({ kind: 'unknown', reason: 'its answers differ from run to run' });
  });

  it('looks at fractions rather than at labels, which jump', async () => {
    const labelled = instanceOf(([x]) => {
      const rows = x!.shape[0]!;
      const label = {
        name: 'label',
        datatype: 'INT64',
        shape: [rows],
        data: new Uint8Array(8 * rows).fill(rows),
      } as const;
      return [label, { ...x!, name: 'y' }];
    });
    expect(await test(labelled)).toMatchObject({ kind: 'measured', difference: { relative: 0 } });
  });

  it('says a figure for a number that is lost in company', async () => {
    const result = await test(ofValues((values) => (values.length > 8 ? values.map(() => NaN) : values)));
    expect(result).toMatchObject({ kind: 'measured', difference: { relative: 1e9 } });
  });

  it('says nothing about a model that does not take made-up input, or takes too long', async () => {
    const refusing = instanceOf(() => {
      throw new InferError('INVALID_ARGUMENT', 'no such token');
    });
    expect(await test(refusing)).toEqual({ kind: 'unknown', reason: 'no such token' });
    const clock = new FakeClock();
    const slow: ModelInstance = {
      run() {
        let reject: (error: Error) => void = () => {};
        const result = new Promise<Tensor[]>((_, onReject) => (reject = onReject));
        queueMicrotask(() => clock.advance(20_000));
        return { result, stop: () => reject(new InferError('CANCELLED', 'stopped')) };
      },
      close: () => Promise.resolve(),
    };
    expect(await test(slow, modelPlan(), clock)).toEqual({
      kind: 'unknown',
      reason: 'it takes longer than 2 s to try',
    });
  });
});
