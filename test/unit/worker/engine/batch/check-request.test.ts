import { describe, expect, it } from 'vitest';
import type { InferRequest } from '../../../../../shared/infer/request.ts';
import { NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { checkInputs, orderInputs } from '../../../../../worker/engine/batch/check-request.ts';
import { groupKey } from '../../../../../worker/engine/batch/group-key.ts';
import { floats } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

const plan = modelPlan({
  inputs: [tensorPlan('a', 'FP32', [-1, 2]), tensorPlan('b', 'FP32', [-1, -1], { optional: true })],
});
const a = floats('a', [2, 2], [1, 2, 3, 4]);
const b = floats('b', [2, 1], [5, 6]);

function request(inputs: readonly Tensor[], outputs: readonly string[] = []): InferRequest {
  return { id: '', model: 'm', version: '', inputs, outputs, parameters: NO_PARAMETERS };
}

describe('orderInputs', () => {
  it('keeps the order of the config, whatever the order of the request', () => {
    expect(orderInputs(plan, request([b, a])).map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it('lets optional inputs be left out', () => {
    expect(orderInputs(plan, request([a]))).toEqual([a]);
  });

  it.each([
    ['a required input that is missing', [b], /needs the input 'a', got 'b'/],
    ['an input that the model does not have', [a, b, floats('c', [1], [1])], /takes the inputs 'a', 'b'/],
    ['an input that is there twice', [a, a], /each once/],
  ])('refuses %s', (_, inputs, message) => {
    expect(() => orderInputs(plan, request(inputs))).toThrow(message);
  });

  it('refuses an output that the model does not have', () => {
    expect(() => orderInputs(plan, request([a], ['q']))).toThrow(/no output 'q', expected one of 'y'/);
  });
});

describe('checkInputs', () => {
  it('returns the rows of the request', () => {
    expect(checkInputs(plan, [a, b])).toBe(2);
  });

  it.each([
    ['another datatype', { ...a, datatype: 'INT32' as const }, /wants FP32 for input 'a', got INT32/],
    ['another shape', floats('a', [1, 3], [1, 2, 3]), /wants the shape \[-1,2\] for input 'a', got \[1,3\]/],
    ['too few bytes', { ...a, shape: [3, 2] }, /wants 24 bytes for input 'a', got 16/],
  ])('refuses %s', (_, tensor, message) => {
    expect(() => checkInputs(plan, [tensor])).toThrow(message);
  });

  it('refuses inputs whose batch sizes differ', () => {
    expect(() => checkInputs(plan, [a, floats('b', [1, 1], [1])])).toThrow(/got 2 and 1 in 'b'/);
  });

  it('refuses more rows than the model takes and says why where the config says otherwise', () => {
    const one = { ...plan, maxRows: 1, oneRowReason: 'the model cannot batch: so' };
    expect(() => checkInputs(one, [a])).toThrow(
      /batch-size must be <= 1 for 'm', got 2 \(the model cannot batch: so\)/,
    );
  });

  it('refuses BYTES whose elements are not as many as the shape says', () => {
    const texts = modelPlan({ inputs: [tensorPlan('t', 'BYTES', [-1])] });
    const data = new Uint8Array([1, 0, 0, 0, 65]);
    expect(checkInputs(texts, [{ name: 't', datatype: 'BYTES', shape: [1], data }])).toBe(1);
    for (const [shape, bytes] of [
      [[2], data],
      [[1], data.subarray(0, 4)],
      [[0], data],
      [[1], new Uint8Array([255, 255, 255, 255, 1])],
    ] as const) {
      const tensor: Tensor = { name: 't', datatype: 'BYTES', shape, data: bytes };
      expect(() => checkInputs(texts, [tensor])).toThrow(/elements/);
    }
  });

  it('counts pixels as one byte each, for FP32 only', () => {
    const encoding = { layout: 'NHWC', rescale: 1, mean: [0], std: [1] } as const;
    const picture: Tensor = { ...floats('a', [1, 2], []), data: new Uint8Array(2), pixels: encoding };
    expect(checkInputs(plan, [picture])).toBe(1);
    const bytes = modelPlan({ inputs: [tensorPlan('a', 'UINT8', [-1, 2])] });
    expect(() => checkInputs(bytes, [{ ...picture, datatype: 'UINT8' }])).toThrow(/FP32/);
  });

  it('takes zero rows', () => {
    expect(checkInputs(plan, [floats('a', [0, 2], [])])).toBe(0);
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
