import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { requestKey } from '../../../../../producer/service/cache/request-key.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import { ModelConfigSchema } from '../../../../../shared/proto/generated/model_config_pb.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';

const MODEL = fakeModel('m', {
  identity: 'one',
  config: create(ModelConfigSchema, { name: 'm', backend: 'onnxruntime' }),
  outputs: [fakeSpec('y', 'FP32', [-1]), fakeSpec('z', 'FP32', [-1])],
});

const input = (more: Partial<Tensor> = {}): Tensor => ({
  name: 'x',
  datatype: 'FP32',
  shape: [1, 1],
  data: new Uint8Array([1, 2, 3, 4]),
  ...more,
});

const request = (more: Partial<InferRequest> = {}): InferRequest => ({
  id: '',
  model: 'm',
  version: '',
  inputs: [input()],
  outputs: [],
  parameters: NO_PARAMETERS,
  ...more,
});

const key = requestKey(MODEL, request());

describe('the key of a request', () => {
  it('is the same for everything that does not change the answer', () => {
    const pair = [input(), input({ name: 'a' })];
    expect(requestKey(MODEL, request({ id: 'other', version: '1' }))).toBe(key);
    expect(requestKey(MODEL, request({ outputs: ['z', 'y'] }))).toBe(key);
    expect(requestKey(MODEL, request({ inputs: [input({ data: Buffer.from([1, 2, 3, 4]) })] }))).toBe(key);
    expect(requestKey(MODEL, request({ inputs: pair }))).toBe(
      requestKey(MODEL, request({ inputs: pair.toReversed() })),
    );
  });

  it.each<[string, Partial<InferRequest>]>([
    ['a byte', { inputs: [input({ data: new Uint8Array([1, 2, 3, 5]) })] }],
    ['the shape', { inputs: [input({ shape: [1] })] }],
    ['the datatype', { inputs: [input({ datatype: 'INT32' })] }],
    ['the name', { inputs: [input({ name: 'w' })] }],
    ['the outputs', { outputs: ['y'] }],
    ['an input more', { inputs: [input(), input({ name: 'w', data: new Uint8Array() })] }],
    ['pixels', { inputs: [input({ pixels: { layout: 'NCHW', rescale: 1, mean: [0], std: [1] } })] }],
    ['other pixels', { inputs: [input({ pixels: { layout: 'NCHW', rescale: 1, mean: [0], std: [2] } })] }],
  ])('is another one when %s differs', (_what, more) => {
    expect(requestKey(MODEL, request(more))).not.toBe(key);
    const others = [
      { pixels: { layout: 'NHWC', rescale: 1, mean: [0], std: [1] } },
      { shape: [2, 2] },
    ] satisfies Partial<Tensor>[];
    for (const other of others) {
      expect(requestKey(MODEL, request({ inputs: [input(other)] }))).not.toBe(requestKey(MODEL, request(more)));
    }
  });

  it('is another one for another model, version or content', () => {
    for (const more of [{ name: 'n' }, { version: '2' }, { identity: 'two' }]) {
      expect(requestKey({ ...MODEL, ...more }, request())).not.toBe(key);
    }
  });

  it('does not confuse bytes of one input with those of the next', () => {
    const [a, b] = [new Uint8Array([1, 2]), new Uint8Array([3])];
    const [c, d] = [new Uint8Array([1]), new Uint8Array([2, 3])];
    const keyOf = (one: Uint8Array, two: Uint8Array) =>
      requestKey(MODEL, request({ inputs: [input({ data: one }), input({ name: 'y', data: two })] }));
    expect(keyOf(a, b)).not.toBe(keyOf(c, d));
  });

  it('looks at parameters only where a model can see them', () => {
    const withParameter = request({ parameters: { mode: 'fast' } });
    expect(requestKey(MODEL, withParameter)).toBe(key);
    const seeing = fakeModel('m', { identity: 'one' });
    expect(requestKey(seeing, withParameter)).not.toBe(requestKey(seeing, request()));
    expect(requestKey(seeing, request({ parameters: { mode: 1 } }))).not.toBe(
      requestKey(seeing, request({ parameters: { mode: '1' } })),
    );
    expect(requestKey(seeing, request({ parameters: { priority: 1, timeout: 5 } }))).toBe(
      requestKey(seeing, request()),
    );
  });
});
