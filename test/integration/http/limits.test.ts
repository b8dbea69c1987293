import type { FastifyInstance } from 'fastify';
import { afterEach, expect, test } from 'vitest';
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

afterEach(async () => {
  const connection = new RawConnection(port);
  connection.sendInfer('m', GOOD);
  await connection.until(/"data":\[1,2,3\]/);
  connection.socket.destroy();
  await app.close();
});

test('refuses an announced length beyond the limit before a byte of it has come, and closes (A03)', async () => {
  await start();
  const connection = new RawConnection(port);
  connection.send('POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n0123456789');
  await connection.until(/^HTTP\/1\.1 413 [^]*"error":"the request body is larger than the limit/);
  await connection.untilClosed();
});

test('lets a client that still sends its large body read the refusal, and keeps the connection when it ends', async () => {
  await start({ maxJsonBytes: 1000 });
  const connection = new RawConnection(port);
  connection.send('POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n');
  await connection.until(/^HTTP\/1\.1 413 /);
  connection.send(Buffer.alloc(3_000_000));
  connection.clear();
  connection.sendInfer('m', GOOD);
  await connection.until(/^HTTP\/1\.1 200 /);
  connection.socket.destroy();
});

test('refuses a chunked body as soon as it passes the limit (A04)', async () => {
  await start({ maxBodyBytes: 100_000 });
  const connection = new RawConnection(port);
  connection.send(
    'POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  connection.send(`186A1\r\n${'x'.repeat(100_001)}\r\n`);
  await connection.until(/^HTTP\/1\.1 413 /);
  await connection.untilClosed();
});

test('reads a body that comes in very many tiny chunks (A03)', async () => {
  await start();
  const padded = `${' '.repeat(300_000)}${GOOD}`;
  const connection = new RawConnection(port);
  connection.send('POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
  connection.send(`${Array.from(padded, (byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`);
  await connection.until(/"data":\[1,2,3\]/);
  connection.socket.destroy();
});

test('invites a client that asks first, but not to send too much', async () => {
  await start({ maxBodyBytes: 1000 });
  const polite = new RawConnection(port);
  const head = (length: number) =>
    `POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`;
  polite.send(head(GOOD.length));
  await polite.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
  polite.send(GOOD);
  await polite.until(/HTTP\/1\.1 200 /);
  const greedy = new RawConnection(port);
  greedy.send(head(1001));
  await greedy.until(/^HTTP\/1\.1 413 /);
  polite.socket.destroy();
  greedy.socket.destroy();
});

test('ends a client that does not finish its body in time with 408 (E06)', async () => {
  await start({ receiveTimeoutMs: 300, headersTimeoutMs: 100 });
  const connection = new RawConnection(port);
  connection.send(`POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{`);
  await connection.untilClosed();
  expect(connection.received).toMatch(/^HTTP\/1\.1 408 [^]*\{"error":"[^"]+"\}$/);
});

test('ends a client that does not finish its headers in time with 408 (E06)', async () => {
  await start({ receiveTimeoutMs: 10_000, headersTimeoutMs: 100 });
  const connection = new RawConnection(port);
  connection.send(`POST /v2/models/m/infer HTTP/1.1\r\nHos`);
  await connection.untilClosed();
  expect(connection.received).toMatch(/^HTTP\/1\.1 408 /);
});

test('ends a client that does not read its large answer, and forgets the answer’s bytes (E06)', async () => {
  await start({ sendTimeoutMs: 200, maxBytesInFlight: 25_000_000 });
  dispatcher.answers.set('m', () => [
    { name: 'y', datatype: 'UINT8', shape: [1, 20_000_000], data: new Uint8Array(20_000_000) },
  ]);
  const body = JSON.stringify({ ...(JSON.parse(GOOD) as object), parameters: { binary_data_output: true } });
  const connection = new RawConnection(port);
  connection.socket.pause();
  connection.sendInfer('m', body);
  await expect.poll(() => dispatcher.seen.length).toBe(1);
  dispatcher.answers.delete('m');
  const statusOfAnother = async (jsonLength: number): Promise<number> => {
    const { statusCode } = await app.inject({
      method: 'POST',
      url: '/v2/models/m/infer',
      headers: { 'inference-header-content-length': String(jsonLength) },
      payload: Buffer.alloc(10_000_000),
    });
    return statusCode;
  };
  // While the answer is held, it counts: a body of 10 MB has no room beside it.
  await expect.poll(() => statusOfAnother(2)).toBe(429);
  await expect.poll(() => openConnections(app)).toBe(0);
  await expect.poll(() => statusOfAnother(0)).toBe(200);
  connection.socket.destroy();
});

test('answers what is no HTTP with 400 and closes', async () => {
  await start();
  const connection = new RawConnection(port);
  connection.send(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x0d, 0x0a, 0x0d, 0x0a]));
  await connection.untilClosed();
  expect(connection.received).toMatch(/^HTTP\/1\.1 400 [^]*\{"error":"the request is not valid HTTP"\}$/);
});

test('answers headers that are too large with 431', async () => {
  await start();
  const connection = new RawConnection(port);
  connection.send(`GET /v2 HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(70_000)}\r\n\r\n`);
  await connection.untilClosed();
  expect(connection.received).toMatch(/^HTTP\/1\.1 431 /);
});

test.each(['binary', '/', 'a b/c', '; x=1', 'image/png; q'])('reads a body whose content type is %j', async (type) => {
  await start();
  const connection = new RawConnection(port);
  connection.sendInfer('m', GOOD, `Content-Type: ${type}\r\n`);
  await connection.until(/"data":\[1,2,3\]/);
  connection.socket.destroy();
});

test('refuses a path that does not exist without waiting for its body', async () => {
  await start();
  const connection = new RawConnection(port);
  connection.send('POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n');
  await connection.until(/^HTTP\/1\.1 404 /);
  await connection.untilClosed();
});

test('keeps a connection through good and refused requests', async () => {
  await start();
  const connection = new RawConnection(port);
  for (const [model, status] of [
    ['m', 200],
    ['no_such_model', 404],
    ['m', 200],
  ] as const) {
    connection.clear();
    connection.sendInfer(model, GOOD);
    await connection.until(new RegExp(`^HTTP/1\\.1 ${status} [^]*\\}$`));
  }
  expect(connection.closed).toBe(false);
  connection.socket.destroy();
});

function openConnections(of: FastifyInstance): Promise<number> {
  return new Promise((resolve, reject) => {
    of.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}
