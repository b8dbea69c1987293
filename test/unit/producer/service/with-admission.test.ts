import { expect, test } from 'vitest';
import { Admission } from '../../../../producer/service/admission.ts';
import { withAdmission } from '../../../../producer/service/with-admission.ts';
import { Call } from '../../../../shared/infer/call.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../shared/infer/response.ts';

function requestOf(byteLength: number): InferRequest {
  const data = new Uint8Array(byteLength);
  const inputs = [{ name: 'x', datatype: 'UINT8' as const, shape: [byteLength], data }];
  return { id: '', model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS };
}

test('refuses what would pass the byte limit, with the figures, and counts until the answer', async () => {
  const admission = new Admission({ maxRequestsInFlight: 10, maxBytesInFlight: 100 });
  const waiting: ((response: InferResponse) => void)[] = [];
  const infer = withAdmission(admission, () => new Promise((resolve) => waiting.push(resolve)));
  const first = infer(requestOf(60), new Call('1', 0, Infinity));
  await expect(infer(requestOf(41), new Call('2', 0, Infinity))).rejects.toMatchObject({
    code: 'RESOURCE_EXHAUSTED',
    message: expect.stringContaining('60 of 100 bytes') as string,
  });
  const second = infer(requestOf(40), new Call('3', 0, Infinity));
  expect([admission.requestsInFlight, admission.bytesInFlight]).toEqual([2, 100]);
  for (const resolve of waiting) resolve({} as InferResponse); // nothing here looks inside
  await Promise.all([first, second]);
  expect([admission.requestsInFlight, admission.bytesInFlight]).toEqual([0, 0]);
});

test('gives permits back after failures too', async () => {
  const admission = new Admission({ maxRequestsInFlight: 1, maxBytesInFlight: 100 });
  const infer = withAdmission(admission, () => Promise.reject(new Error('no')));
  for (let i = 0; i < 3; i++) await expect(infer(requestOf(60), new Call('1', 0, Infinity))).rejects.toThrow('no');
  expect([admission.requestsInFlight, admission.bytesInFlight]).toEqual([0, 0]);
});
