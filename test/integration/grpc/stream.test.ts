import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { FakeDispatcher, fakeIdentity } from '../../support/fake-dispatcher.ts';
import { floats, GrpcInferServer, rawRequest } from '../../support/grpc-infer.ts';

/** At its deadline a client cancels as well, and its clock may be a little ahead. */
const WHICHEVER_IS_FIRST = /^(DEADLINE_EXCEEDED|CANCELLED)$/;

let dispatcher: FakeDispatcher;
let server: GrpcInferServer;
beforeEach(async () => {
  dispatcher = new FakeDispatcher([fakeIdentity('id', 'FP32'), fakeIdentity('later', 'FP32')]);
  server = await GrpcInferServer.start(dispatcher);
});
afterEach(async () => {
  const answer = await server.infer(ask('id', 'good', 1));
  expect(answer.id).toBe('good');
  await expect.poll(() => server.services.admission.requestsInFlight).toBe(0);
  await expect.poll(() => server.services.admission.bytesInFlight).toBe(0);
  await server.stop();
});

function ask(model: string, id: string, ...values: number[]) {
  return rawRequest(model, [{ name: 'x', datatype: 'FP32', shape: [1, values.length], data: floats(...values) }], {
    id,
  });
}

function seenLater(): number {
  return dispatcher.seen.filter(({ request }) => request.model === 'later').length;
}

/** Requests to `later` wait until they are let go. */
function holdLater(): () => void {
  const waiting: (() => void)[] = [];
  dispatcher.answers.set('later', async ({ inputs }) => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    return inputs.map((input): Tensor => ({ ...input, name: 'y' }));
  });
  return () => {
    for (const letGo of waiting.splice(0)) letGo();
  };
}

test('every request has one answer, in the order of the requests, and each says that it is the last', async () => {
  const letGo = holdLater();
  const stream = server.stream();
  const ids = Array.from({ length: 50 }, (_, i) => String(i));
  for (const id of ids) stream.send(ask(id === '0' ? 'later' : 'id', id, Number(id)));
  await expect.poll(() => dispatcher.seen.length).toBe(50);
  expect(stream.unread).toBe(0);
  letGo();
  for (const id of ids) {
    const { errorMessage, inferResponse } = await stream.next();
    expect([errorMessage, inferResponse?.id]).toEqual(['', id]);
    expect(inferResponse?.parameters.triton_final_response?.parameterChoice).toEqual({
      case: 'boolParam',
      value: true,
    });
    expect(inferResponse?.rawOutputContents.map((raw) => Buffer.from(raw))).toEqual([Buffer.from(floats(Number(id)))]);
  }
  stream.call.end();
  expect(await stream.status).toMatchObject({ code: status.OK });
});

describe('an error', () => {
  test('is an answer like any other: in its place, with the id alone, and the stream goes on', async () => {
    const stream = server.stream();
    stream.send(ask('id', 'a', 1));
    stream.send(ask('none', 'b', 1));
    stream.send({ ...ask('id', 'c', 1), rawInputContents: [] });
    stream.send(Buffer.from('ffffffff', 'hex'));
    stream.send(ask('id', 'd', 1));
    const answers = [
      await stream.next(),
      await stream.next(),
      await stream.next(),
      await stream.next(),
      await stream.next(),
    ];
    expect(
      answers.map(({ errorMessage, inferResponse }) => [errorMessage, inferResponse?.id, inferResponse?.modelName]),
    ).toEqual([
      ['', 'a', 'id'],
      [expect.stringMatching(/^\[request id: b\] .*'none'/), 'b', ''],
      [expect.stringContaining('neither contents'), 'c', ''],
      [expect.stringContaining('the message is no ModelInferRequest'), '', ''],
      ['', 'd', 'id'],
    ]);
    stream.call.end();
    expect(await stream.status).toMatchObject({ code: status.OK });
  });

  test('ends the stream with its own status for a client that asks for that, after the answers before it', async () => {
    const letGo = holdLater();
    const stream = server.stream({ headers: { triton_grpc_error: 'true' } });
    stream.send(ask('later', 'a', 1));
    stream.send(ask('none', 'b', 1));
    stream.send(ask('later', 'c', 1));
    await expect.poll(() => dispatcher.seen.length).toBe(2);
    letGo();
    expect((await stream.next()).inferResponse?.id).toBe('a');
    const { code, details } = await stream.status;
    expect([code, details]).toEqual([status.NOT_FOUND, expect.stringContaining("'none'")]);
    expect(stream.unread).toBe(0);
  });
});

test('half-close lets the requests in hand finish, and ends with OK', async () => {
  const letGo = holdLater();
  const stream = server.stream();
  for (const id of ['0', '1', '2']) stream.send(ask('later', id, 1));
  stream.call.end();
  await expect.poll(() => dispatcher.seen.length).toBe(3);
  letGo();
  expect([(await stream.next()).inferResponse?.id, (await stream.next()).inferResponse?.id]).toEqual(['0', '1']);
  expect((await stream.next()).inferResponse?.id).toBe('2');
  expect(await stream.status).toMatchObject({ code: status.OK });
});

test('a stream without requests ends with OK', async () => {
  const stream = server.stream();
  stream.call.end();
  expect(await stream.status).toMatchObject({ code: status.OK });
});

test('cancelling a stream cancels all that it has in hand (B07)', async () => {
  holdLater();
  const stream = server.stream();
  for (const id of ['0', '1', '2']) stream.send(ask('later', id, 1));
  await expect.poll(() => dispatcher.seen.length).toBe(3);
  stream.call.cancel();
  await expect.poll(() => dispatcher.seen.map(({ call }) => call.error?.code)).toEqual(Array(3).fill('CANCELLED'));
});

test('the deadline of a stream ends it, and cancels all that it has in hand', async () => {
  holdLater();
  const stream = server.stream({ timeoutMs: 300 });
  stream.send(ask('later', '0', 1));
  expect(await stream.status).toMatchObject({ code: status.DEADLINE_EXCEEDED });
  expect(stream.unread).toBe(0);
  await expect.poll(() => dispatcher.seen[0]?.call.error?.code).toMatch(WHICHEVER_IS_FIRST);
});

test('the calls of a stream have ids of their own, also when the client gave one', async () => {
  const stream = server.stream({ headers: { 'x-request-id': 'mine' } });
  for (const id of ['0', '1']) stream.send(ask('id', id, 1));
  await stream.next();
  await stream.next();
  expect(dispatcher.seen.map(({ call }) => call.id)).toEqual(['mine/1', 'mine/2']);
  stream.call.end();
  await stream.status;
});

describe('a client that sends faster than it is answered', () => {
  test('waits: so many requests of a stream are in hand at most', async () => {
    const letGo = holdLater();
    const stream = server.stream();
    for (let i = 0; i < 300; i++) stream.send(ask('later', String(i), 1));
    await expect.poll(() => dispatcher.seen.length).toBe(128);
    // A later call on the same connection is answered, so whatever was to arrive has arrived.
    await server.infer(ask('id', 'x', 1));
    expect(seenLater()).toBe(128);
    for (let i = 0; i < 300; i++) {
      await expect.poll(seenLater, { timeout: 10_000 }).toBeGreaterThan(i);
      letGo();
      expect((await stream.next()).inferResponse?.id).toBe(String(i));
    }
    stream.call.end();
    expect(await stream.status).toMatchObject({ code: status.OK });
  });

  test('waits for the bytes of its requests as well', async () => {
    const letGo = holdLater();
    const stream = server.stream();
    const elements = 4 * 1024 * 1024;
    const data = new Uint8Array(elements * 4);
    const sent = rawRequest('later', [{ name: 'x', datatype: 'FP32', shape: [1, elements], data }]);
    for (let i = 0; i < 8; i++) stream.send({ ...sent, id: String(i) });
    await expect.poll(() => dispatcher.seen.length, { timeout: 10_000 }).toBe(4);
    await server.infer(ask('id', 'x', 1));
    expect(seenLater()).toBe(4);
    for (let i = 0; i < 8; i++) {
      await expect.poll(seenLater, { timeout: 10_000 }).toBeGreaterThan(i);
      letGo();
      expect((await stream.next()).inferResponse?.id).toBe(String(i));
    }
    stream.call.end();
    expect(await stream.status).toMatchObject({ code: status.OK });
  });
});

describe('a client that does not read its answers', () => {
  /** Answers of 4 MiB, but for the one that is asked for at the end of every test. */
  function answerLarge(): void {
    const large = { name: 'y', datatype: 'FP32', shape: [1, 1048576], data: new Uint8Array(4 * 1024 * 1024) } as const;
    dispatcher.answers.set('id', ({ id, inputs }) =>
      id === 'good' ? inputs.map((input): Tensor => ({ ...input, name: 'y' })) : [large],
    );
  }

  test('stops being read', async () => {
    answerLarge();
    const stream = server.stream();
    stream.call.pause();
    for (let i = 0; i < 200; i++) stream.send(ask('id', String(i), 1));
    let before = 0;
    const settled = () => {
      const same = before > 10 && before === dispatcher.seen.length;
      before = dispatcher.seen.length;
      return same;
    };
    await expect.poll(settled, { interval: 300, timeout: 10_000 }).toBe(true);
    expect(before).toBeLessThan(60);
    expect(server.services.admission.bytesInFlight).toBeLessThan(200 * 1024 * 1024);
    stream.call.cancel();
    await stream.status;
  });

  test('loses its stream after a while, and what was held for it is let go', async () => {
    await server.stop();
    server = await GrpcInferServer.start(dispatcher, { sendTimeoutMs: 300 });
    answerLarge();
    const stream = server.stream();
    stream.call.pause();
    for (let i = 0; i < 50; i++) stream.send(ask('id', String(i), 1));
    await expect.poll(() => server.services.admission.bytesInFlight).toBeGreaterThan(1024 * 1024);
    await expect.poll(() => server.services.admission.bytesInFlight, { timeout: 10_000 }).toBe(0);
    stream.call.resume();
    expect((await stream.status).code).not.toBe(status.OK);
  });
});
