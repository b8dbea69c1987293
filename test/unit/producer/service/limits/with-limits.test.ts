import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { admitJobs, createGate } from '../../../../../producer/service/limits/gate.ts';
import type { Amounts } from '../../../../../producer/service/limits/limits.ts';
import { MemoryLimits } from '../../../../../producer/service/limits/memory-limits.ts';
import { withLimits } from '../../../../../producer/service/limits/with-limits.ts';
import { Pace } from '../../../../../producer/service/pace.ts';
import type { Tenants } from '../../../../../producer/service/tenants/tenants.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../../shared/infer/response.ts';
import { ModelConfigSchema } from '../../../../../shared/proto/generated/model_config_pb.ts';
import { fakeModel, FakeDispatcher } from '../../../../support/fake-dispatcher.ts';
import { tenantsOf } from '../../../../support/tenants.ts';
import { NONE } from './kit.ts';

function setUp(parameters: Record<string, string>, pool: Amounts = NONE, tenants?: Tenants) {
  const entries = Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }] as const);
  const config = create(ModelConfigSchema, { name: 'm', maxBatchSize: 8, parameters: Object.fromEntries(entries) });
  const { catalog } = new FakeDispatcher([fakeModel('m', { config })]);
  const clock = { now: () => 0, setTimer: () => () => undefined };
  const limits = new MemoryLimits(clock);
  const running: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const gate = createGate({ limits, pool, catalog, tenants, pace: new Pace(clock) });
  const infer = withLimits(gate, () => {
    return new Promise<InferResponse>((resolve, reject) =>
      running.push({ resolve: () => resolve({} as InferResponse), reject }),
    );
  });
  return { infer, running, admit: admitJobs(gate, tenants) };
}

function requestOf(rows = 1): InferRequest {
  const data = new Uint8Array(rows * 4);
  const inputs = [{ name: 'x', datatype: 'FP32' as const, shape: [rows, 1], data }];
  return { id: '', model: 'm', version: '', inputs, outputs: [], parameters: NO_PARAMETERS };
}

function callOf(tenant = ''): Call {
  const call = new Call('c', 0, Infinity);
  call.tenant = tenant;
  return call;
}

const refusal = (message: string) => ({ code: 'RESOURCE_EXHAUSTED', refusedAt: 'entry', retryAfterMs: 1000, message });

test('a model takes what its config allows, and again when some of it has ended or failed', async () => {
  const { infer, running } = setUp({ queue_max_requests: '2' });
  const first = infer(requestOf(), callOf());
  const second = infer(requestOf(), callOf());
  await expect(infer(requestOf(), callOf())).rejects.toMatchObject(
    refusal('model m is busy: 2 of 2 requests are in hand; try again later'),
  );
  running[0]!.resolve();
  running[1]!.reject(new InferError('INTERNAL', 'broken'));
  await first;
  await expect(second).rejects.toThrow('broken');
  const third = infer(requestOf(), callOf());
  await Promise.resolve();
  running[2]!.resolve();
  await third;
});

test('limits count rows and bytes, and the message has the figures', async () => {
  const { infer } = setUp({ queue_max_rows: '5' }, { ...NONE, bytes: 23 });
  void infer(requestOf(4), callOf());
  await expect(infer(requestOf(2), callOf())).rejects.toMatchObject(
    refusal('model m is busy: 4 of 5 rows are in hand, no room for 2 more; try again later'),
  );
  void infer(requestOf(1), callOf());
  const { infer: other } = setUp({}, { ...NONE, bytes: 23 });
  void other(requestOf(4), callOf());
  await expect(other(requestOf(2), callOf())).rejects.toMatchObject(
    refusal('the pool is busy: 16 of 23 bytes are in hand, no room for 8 more; try again later'),
  );
});

test('a request that never fits is wrong, and need not try again', async () => {
  const { infer } = setUp({ queue_max_rows: '5' }, { ...NONE, bytes: 12 });
  await expect(infer(requestOf(6), callOf())).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'model m takes at most 5 rows at once, the request has 6',
  });
  await expect(infer(requestOf(4), callOf())).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'the pool takes at most 12 bytes at once, the request has 16',
  });
});

test('a tenant keeps to its quota, and another one is not concerned', async () => {
  const tenants = tenantsOf({ shop: { key: 'a', max_requests: 1, requests_per_second: 0.2 }, lab: { key: 'b' } });
  const { infer, running } = setUp({}, NONE, tenants);
  const first = infer(requestOf(), callOf('shop'));
  await expect(infer(requestOf(), callOf('shop'))).rejects.toMatchObject(
    refusal('tenant shop is busy: 1 of 1 requests are in hand; try again later'),
  );
  void infer(requestOf(), callOf('lab'));
  running.forEach(({ resolve }) => resolve());
  await first;
  await expect(infer(requestOf(), callOf('shop'))).rejects.toMatchObject({
    ...refusal('tenant shop may send 0.2 requests a second, and has sent more; try again later'),
    retryAfterMs: 5000,
  });
});

test('a call that has ended while it waited for its place does not run, and gives it back', async () => {
  const { infer, running } = setUp({ queue_max_requests: '1' });
  const call = callOf();
  const first = infer(requestOf(), call);
  call.cancel(new InferError('CANCELLED', 'gone'));
  await expect(first).rejects.toThrow('gone');
  expect(running).toHaveLength(0);
  void infer(requestOf(), callOf());
  await Promise.resolve();
  expect(running).toHaveLength(1);
});

test('what nothing limits takes no step', () => {
  const { infer, running } = setUp({ queue_weight: '3' });
  void infer(requestOf(), callOf());
  expect(running).toHaveLength(1); // in the same turn
});

test('the submission of a job counts against the rate of its tenant, and gives its place back at once', async () => {
  const tenants = tenantsOf({ shop: { key: 'k', requests_per_second: 2, max_requests: 1 } });
  const { admit } = setUp({}, NONE, tenants);
  const job = { request: requestOf(), tenant: 'shop' };
  expect(await admit(job, () => Promise.resolve('first'))).toBe('first');
  await expect(admit(job, () => Promise.reject(new InferError('UNAVAILABLE', 'away')))).rejects.toThrow('away');
  const take = () => Promise.reject(new Error('not asked'));
  await expect(admit(job, take)).rejects.toMatchObject(
    refusal('tenant shop may send 2 requests a second, and has sent more; try again later'),
  );
  expect(tenants.counts().get('shop')).toEqual({ admitted: 2, refused: 1 });
});

test('a job that a tenant may never have in hand is refused for what it is', async () => {
  const tenants = tenantsOf({ shop: { key: 'k', max_rows: 2 } });
  const { admit } = setUp({}, NONE, tenants);
  const job = { request: requestOf(3), tenant: 'shop' };
  await expect(admit(job, () => Promise.resolve())).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
});
