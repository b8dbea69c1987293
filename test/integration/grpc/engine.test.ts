import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import { IDENTITY_MODELS, makeFixtureModel } from '../../fixtures/make-models.ts';
import { encodeRequest, floats, GrpcInferServer, rawRequest, type RequestInit } from '../../support/grpc-infer.ts';
import { useShm } from '../../support/shm.ts';
import { makeOneInstanceSlow } from '../../support/slow-model.ts';
import { type EngineUnderTest, startEngine, temporaryFolder } from '../engine/kit.ts';

const folder = temporaryFolder();
let engine: EngineUnderTest;
let server: GrpcInferServer;
beforeAll(async () => {
  for (const name of [...Object.keys(IDENTITY_MODELS), 'rowsum', 'scalar']) {
    makeFixtureModel(join(folder.path, name), name);
  }
  makeOneInstanceSlow(folder.path);
  engine = await startEngine([folder.path]);
  server = await GrpcInferServer.start(engine.engine);
});
afterAll(async () => {
  await server.stop();
  await engine.close();
  folder.remove();
});

type More = Omit<RequestInit, '$typeName' | 'modelName'>;

/** Units of about 50 ms each. */
function slow(id: string, units: number) {
  const data = new Uint8Array(BigInt64Array.of(BigInt(units)).buffer);
  return rawRequest('slow', [{ name: 'x', datatype: 'INT64', shape: [1, 1], data }], { id });
}

function executions(model: string): number {
  return [...engine.engine.stats()].find((stats) => stats.model === model)?.executionCount ?? 0;
}

test.each(Object.entries(IDENTITY_MODELS))(
  '%s: every bit of a tensor comes back, however it lies in the message',
  async (model, datatype) => {
    const elements =
      datatype === 'BYTES'
        ? Buffer.from('\x02\0\0\0\xff\0' + '\0\0\0\0' + '\x01\0\0\0a', 'latin1')
        : Buffer.from(
            Array.from({ length: byteSizeOf(datatype) * 3 }, (_, i) => (datatype === 'BOOL' ? i & 1 : i * 37)),
          );
    // Ids of growing length move the data through all alignments.
    for (const id of ['', 'a', 'ab', 'abc', 'abcd', 'abcde', 'abcdef', 'abcdefg']) {
      const answer = await server.infer(
        rawRequest(model, [{ name: 'x', datatype, shape: [1, 3], data: elements }], { id }),
      );
      expect(answer.id).toBe(id);
      expect(answer.outputs).toMatchObject([{ name: 'y', datatype, shape: [1n, 3n] }]);
      expect(answer.rawOutputContents.map((raw) => Buffer.from(raw))).toEqual([elements]);
    }
  },
);

test('requests of many calls and of a stream share batches, and each gets its own answer', async () => {
  const ask = (i: number) =>
    rawRequest('rowsum', [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: floats(i, 0.5) }], { id: String(i) });
  const before = executions('rowsum');
  const stream = server.stream();
  for (let i = 100; i < 120; i++) stream.send(ask(i));
  const unary = await Promise.all(Array.from({ length: 20 }, (_, i) => server.infer(ask(i))));
  const sum = (raw: Uint8Array | undefined) => Buffer.from(raw ?? []).readFloatLE();
  expect(unary.map(({ id, rawOutputContents }) => [id, sum(rawOutputContents[0])])).toEqual(
    Array.from({ length: 20 }, (_, i) => [String(i), i + 0.5]),
  );
  for (let i = 100; i < 120; i++) {
    const { inferResponse } = await stream.next();
    expect([inferResponse?.id, sum(inferResponse?.rawOutputContents[0])]).toEqual([String(i), i + 0.5]);
  }
  stream.call.end();
  await stream.status;
  expect(executions('rowsum') - before).toBeLessThan(40);
});

test('a scalar has an empty shape and four bytes (A19)', async () => {
  const answer = await server.infer(
    rawRequest('scalar', [{ name: 'x', datatype: 'FP32', shape: [3], data: floats(1, 2, 4) }]),
  );
  expect(answer.outputs[0]?.shape).toEqual([]);
  expect(answer.rawOutputContents.map((raw) => Buffer.from(raw))).toEqual([Buffer.from(floats(7))]);
});

describe('what is cancelled while it waits never runs (B07)', () => {
  test('in calls of their own', async () => {
    const before = executions('slow');
    const first = server.infer(slow('first', 30));
    await expect.poll(() => engine.engine.pending('slow', '1') + server.services.admission.requestsInFlight).toBe(1);
    const waiting = ['a', 'b', 'c', 'd'].map((id) => server.call(encodeRequest(slow(id, 1))));
    const late = server.infer(slow('late', 1), { timeoutMs: 100 });
    await expect.poll(() => server.services.admission.requestsInFlight).toBe(6);
    for (const { cancel } of waiting) cancel();
    for (const { answer } of waiting) await expect(answer).rejects.toMatchObject({ code: status.CANCELLED });
    await expect(late).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    expect((await first).id).toBe('first');
    await server.infer(slow('after', 1));
    expect(executions('slow') - before).toBe(2);
    expect(server.services.admission.requestsInFlight).toBe(0);
  });

  test('in a stream', async () => {
    const before = executions('slow');
    const first = server.infer(slow('first', 30));
    await expect.poll(() => server.services.admission.requestsInFlight).toBe(1);
    const stream = server.stream();
    for (const id of ['a', 'b', 'c']) stream.send(slow(id, 1));
    await expect.poll(() => server.services.admission.requestsInFlight).toBe(4);
    stream.call.cancel();
    await expect.poll(() => server.services.admission.requestsInFlight).toBe(1);
    await first;
    await server.infer(slow('after', 1));
    expect(executions('slow') - before).toBe(2);
  });
});

describe('shared memory', () => {
  const makeShm = useShm();
  const region = (name: string, byteLength: number, offset = 0) =>
    ({
      shared_memory_region: { parameterChoice: { case: 'stringParam', value: name } },
      shared_memory_byte_size: { parameterChoice: { case: 'int64Param', value: BigInt(byteLength) } },
      shared_memory_offset: { parameterChoice: { case: 'int64Param', value: BigInt(offset) } },
    }) as const;
  const input = (parameters: ReturnType<typeof region>) => ({
    name: 'x',
    datatype: 'FP32',
    shape: [1n, 2n],
    parameters,
  });

  test('holds inputs and outputs; the answer keeps an empty place for what went there', async () => {
    const content = Buffer.alloc(64);
    content.set(floats(1.5, -2), 8);
    const shm = makeShm(content);
    server.services.sharedMemory.register('r', shm.key, 0, 64);
    try {
      const answer = await server.infer({
        modelName: 'id_f32',
        inputs: [input(region('r', 8, 8))],
        outputs: [{ name: 'y', parameters: region('r', 8, 32) }],
      });
      expect(answer.outputs[0]).toMatchObject({ name: 'y', datatype: 'FP32', shape: [1n, 2n] });
      expect(answer.rawOutputContents.map(({ length }) => length)).toEqual([0]);
      expect(shm.bytes().subarray(32, 40)).toEqual(Buffer.from(floats(1.5, -2)));
    } finally {
      server.services.sharedMemory.unregisterAll();
    }
  });

  test('is named in the refusal when it does not fit', async () => {
    const shm = makeShm(Buffer.alloc(64));
    server.services.sharedMemory.register('r', shm.key, 0, 64);
    try {
      const ask = (more: More) => server.refusal({ modelName: 'id_f32', inputs: [input(region('r', 8))], ...more });
      const cases: [More, status, string][] = [
        [{ inputs: [input(region('none', 8))] }, status.NOT_FOUND, 'region none is not registered'],
        [{ inputs: [input(region('r', 12))] }, status.INVALID_ARGUMENT, 'expected 8 bytes, got 12'],
        [{ inputs: [input(region('r', 8, 60))] }, status.INVALID_ARGUMENT, 'has 64 bytes, too few'],
        [{ rawInputContents: [floats(1, 2)] }, status.INVALID_ARGUMENT, 'additional input data'],
        [{ outputs: [{ name: 'y', parameters: region('r', 4) }] }, status.INVALID_ARGUMENT, 'do not fit'],
        [
          { outputs: [{ name: 'y', parameters: region('none', 8) }] },
          status.NOT_FOUND,
          'region none is not registered',
        ],
        [
          {
            outputs: [
              {
                name: 'y',
                parameters: {
                  ...region('r', 8),
                  classification: { parameterChoice: { case: 'int64Param', value: 1n } },
                },
              },
            ],
          },
          status.INVALID_ARGUMENT,
          'both shared memory and classification',
        ],
      ];
      for (const [more, code, message] of cases) {
        const refusal = await ask(more);
        expect([refusal.code, refusal.details]).toEqual([code, expect.stringContaining(message)]);
      }
    } finally {
      server.services.sharedMemory.unregisterAll();
    }
  });
});
