import { describe, expect, it } from 'vitest';
import { groupKey } from '../../../../../worker/engine/batch/group-key.ts';
import { orderInputs } from '../../../../../worker/engine/batch/order-inputs.ts';
import { floats } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

const plan = modelPlan({
  inputs: [tensorPlan('a', 'FP32', [-1, 2]), tensorPlan('b', 'FP32', [-1, -1], { optional: true })],
});
const a = floats('a', [2, 2], [1, 2, 3, 4]);
const b = floats('b', [2, 1], [5, 6]);

describe('orderInputs', () => {
  it('puts inputs into the order of the config, whatever the order of the request', () => {
    expect(orderInputs(plan, [b, a]).map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it('hands on what is in order already, without a copy', () => {
    const given = [a, b];
    expect(orderInputs(plan, given)).toBe(given);
  });

  it('lets optional inputs be left out', () => {
    expect(orderInputs(plan, [a])).toEqual([a]);
  });
});

describe('groupKey', () => {
  it('is the same for requests that differ in rows only', () => {
    expect(groupKey(plan, [a, b])).toBe(groupKey(plan, [floats('a', [1, 2], [1, 2]), floats('b', [1, 1], [1])]));
  });

  it('tells shapes apart, and which inputs there are', () => {
    const keys = [[a], [a, b], [a, floats('b', [2, 2], [1, 2, 3, 4])]].map((inputs) => groupKey(plan, inputs));
    expect(new Set(keys).size).toBe(3);
  });

  it('is empty where all requests fit together', () => {
    expect(groupKey({ ...plan, oneGroup: true }, [a])).toBe('');
  });
});
