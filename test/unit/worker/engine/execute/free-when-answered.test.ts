import { expect, test } from 'vitest';
import { NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../../shared/infer/response.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { freeWhenAnswered } from '../../../../../worker/engine/execute/free-when-answered.ts';
import { LargeResponse } from '../../../../../worker/engine/execute/large-response.ts';
import { NO_TIME } from '../../../../support/fake-dispatcher.ts';

const tensor = (byteLength: number): Tensor => ({
  name: 't',
  datatype: 'UINT8',
  shape: [byteLength],
  data: new Uint8Array(byteLength),
});
const SMALL = tensor(100);

test('outputs are freed when the last of the requests that share them is answered', () => {
  const output = tensor(100_000);
  const free = freeWhenAnswered([output, SMALL], [{ inputs: [SMALL] }, { inputs: [SMALL] }]);
  free?.();
  expect(output.data.length).toBe(100_000);
  free?.();
  expect(output.data.length).toBe(0);
  expect(SMALL.data.length).toBe(100);
});

test('requests with large inputs may be freed though their outputs are small', () => {
  expect(freeWhenAnswered([SMALL], [{ inputs: [SMALL, tensor(100_000)] }])).toBeTypeOf('function');
});

test('small requests have nothing to free', () => {
  expect(freeWhenAnswered([SMALL], [{ inputs: [SMALL] }])).toBeUndefined();
});

test('a copy of a response cannot free what the response holds', () => {
  let freed = 0;
  const plain = { model: 'm', version: '1', outputs: [SMALL], parameters: NO_PARAMETERS, timings: NO_TIME };
  const response: InferResponse = new LargeResponse(plain, () => (freed += 1));
  const copy: InferResponse = { ...response, outputs: [] };
  expect('free' in copy).toBe(false);
  expect({ ...response }).toMatchObject(plain);
  response.free?.();
  expect(freed).toBe(1);
});
