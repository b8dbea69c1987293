import { expect, test } from 'vitest';
import { Admission } from '../../../../producer/service/admission.ts';
import { Pace } from '../../../../producer/service/pace.ts';
import { withAdmission } from '../../../../producer/service/with-admission.ts';
import { Call } from '../../../../shared/infer/call.ts';
import { InferError } from '../../../../shared/errors.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../shared/infer/response.ts';
import { systemClock } from '../../../../shared/runtime/clock.ts';

function requestOf(byteLength: number): InferRequest {
  const data = new Uint8Array(byteLength);
  const inputs = [{ name: 'x', datatype: 'UINT8' as const, shape: [byteLength], data }];
  return { id: '', model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS };
}

test('refuses what would pass the byte limit, with the figures, and counts until the answer', async () => {
  const admission = new Admission({ maxRequestsInFlight: 10, maxBytesInFlight: 100 });
  const waiting: ((response: InferResponse) => void)[] = [];
  const infer = withAdmission(admission, new Pace(systemClock), () => new Promise((resolve) => waiting.push(resolve)));
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
  const infer = withAdmission(admission, new Pace(systemClock), () => Promise.reject(new Error('no')));
  for (let i = 0; i < 3; i++)
    await expect(infer(requestOf(60), new Call('1', 0, Infinity))).rejects.toThrow('internal error');
  expect([admission.requestsInFlight, admission.bytesInFlight]).toEqual([0, 0]);
});

test('tells one that was refused further in when to come again, by the speed of its model', async () => {
  let nowMs = 0;
  const pace = new Pace({ now: () => nowMs, setTimer: () => () => undefined });
  const admission = new Admission({ maxRequestsInFlight: 10, maxBytesInFlight: 100 }, pace);
  const answers = [
    () => Promise.resolve({} as InferResponse),
    () => Promise.reject(new InferError('RESOURCE_EXHAUSTED', 'full')),
  ];
  const infer = withAdmission(admission, pace, () => {
    nowMs += 5000;
    return answers.shift()!();
  });
  await infer(requestOf(1), new Call('1', 0, Infinity));
  const error = await infer(requestOf(1), new Call('2', 0, Infinity)).catch((refusal: unknown) => refusal);
  expect(error).toMatchObject({ code: 'RESOURCE_EXHAUSTED', message: 'full' });
  // One has left in ten seconds.
  expect((error as InferError).retryAfterMs).toBeGreaterThan(9_000);
  expect((error as InferError).retryAfterMs).toBeLessThan(12_000);
});
