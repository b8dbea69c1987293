import type { FastifyInstance } from 'fastify';
import { beforeEach, expect, test } from 'vitest';
import type { HttpSettings } from '../../../producer/http/http-settings.ts';
import { FakeDispatcher, fakeIdentity } from '../../support/fake-dispatcher.ts';
import { testApp } from '../../support/http-app.ts';
import { listen, RawConnection } from '../../support/raw-http.ts';

const GOOD = JSON.stringify({ inputs: [{ name: 'x', datatype: 'UINT8', shape: [1, 3], data: [1, 2, 3] }] });

let app: FastifyInstance;
let dispatcher: FakeDispatcher;
let port: number;

async function start(settings: Partial<HttpSettings> = {}): Promise<void> {
  dispatcher = new FakeDispatcher([fakeIdentity('m', 'UINT8')]);
  app = testApp(dispatcher, settings);
  port = await listen(app);
}

beforeEach(() => start());

test.each(['a closed', 'a reset', 'a half-closed'])(
  '%s connection cancels its call, and only that (E04)',
  async (how) => {
    dispatcher.hold();
    const gone = new RawConnection(port);
    gone.sendInfer('m', GOOD);
    await expect.poll(() => dispatcher.seen.length).toBe(1);
    const stays = new RawConnection(port);
    stays.sendInfer('m', GOOD);
    await expect.poll(() => dispatcher.seen.length).toBe(2);
    if (how === 'a closed') gone.socket.destroy();
    else if (how === 'a reset') gone.socket.resetAndDestroy();
    else gone.socket.end();
    await expect.poll(() => dispatcher.seen[0]?.call.error?.code).toBe('CANCELLED');
    dispatcher.letGo();
    await stays.until(/"data":\[1,2,3\]/);
    expect(dispatcher.seen[1]?.call.error).toBeUndefined();
    stays.socket.destroy();
    await app.close();
  },
);

test('a client that goes away in the middle of its body costs nothing', async () => {
  for (let i = 0; i < 10; i++) {
    const gone = new RawConnection(port);
    gone.send('POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"inputs":');
    gone.socket.end();
    await gone.untilClosed();
  }
  const good = new RawConnection(port);
  good.sendInfer('m', GOOD);
  await good.until(/"data":\[1,2,3\]/);
  expect(dispatcher.seen).toHaveLength(1);
  good.socket.destroy();
  await app.close();
});

test('an answered call is not cancelled when its client goes', async () => {
  const connection = new RawConnection(port);
  connection.sendInfer('m', GOOD);
  await connection.until(/"data":\[1,2,3\]/);
  connection.socket.destroy();
  await app.close();
  expect(dispatcher.seen[0]?.call.error).toBeUndefined();
});

test('closing answers what is under way, refuses what is new with 503, and ends (E07)', async () => {
  dispatcher.hold();
  const busy = new RawConnection(port);
  busy.sendInfer('m', GOOD);
  await expect.poll(() => dispatcher.seen.length).toBe(1);
  const other = new RawConnection(port);
  other.sendInfer('m', GOOD);
  await expect.poll(() => dispatcher.seen.length).toBe(2);
  const idle = new RawConnection(port);
  idle.send('GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n');
  await idle.until(/^HTTP\/1\.1 200 /);

  const closed = app.close();
  await idle.untilClosed();
  // Pipelined behind a request under way: it reaches the server although no new connection would.
  busy.send('GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n');
  dispatcher.letGo();
  await busy.untilClosed();
  await other.untilClosed();
  await closed;
  expect(busy.received).toMatch(/^HTTP\/1\.1 200 [^]*"data":\[1,2,3\][^]*HTTP\/1\.1 503 [^]*shutting down/);
  expect(other.received).toMatch(/^HTTP\/1\.1 200 /);
});

test('closing does not wait for ever (E07)', async () => {
  await app.close();
  await start({ drainTimeoutMs: 100 });
  dispatcher.hold();
  const busy = new RawConnection(port);
  busy.sendInfer('m', GOOD);
  await expect.poll(() => dispatcher.seen.length).toBe(1);
  await app.close();
  await busy.untilClosed();
  expect(busy.received).toBe('');
  dispatcher.letGo();
});
