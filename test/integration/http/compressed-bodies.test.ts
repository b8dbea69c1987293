import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createApp } from '../../../producer/app.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../../producer/http/http-settings.ts';
import { createServices, type Services } from '../../../producer/service/services.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { FakeDispatcher, fakeIdentity, fakeModel } from '../../support/fake-dispatcher.ts';
import { jsonInput } from '../../support/http-app.ts';
import { listen, RawConnection } from '../../support/raw-http.ts';
import { until } from '../../support/redis.ts';

const MiB = 1024 * 1024;

/** A MiB of spaces in a thousand bytes; a gzip file may have many such members, one after the other. */
const MEMBER = gzipSync(Buffer.alloc(MiB, ' '));
const GOOD = JSON.stringify({ inputs: [jsonInput('x', 'FP32', [1, 1], [1])] });

let app: FastifyInstance;
let services: Services;
let dispatcher: FakeDispatcher;
let port = 0;

beforeEach(async () => {
  const settings = { ...DEFAULT_HTTP_SETTINGS, maxJsonBytes: 64 * MiB, maxBytesInFlight: 160 * MiB };
  dispatcher = new FakeDispatcher([fakeModel('m'), fakeIdentity('text', 'BYTES')]);
  services = createServices({ dispatcher, settings, logger: silentLogger, version: '0.0.0-test' });
  app = createApp({ services, settings });
  port = await listen(app);
});
afterEach(async () => {
  dispatcher.letGo();
  expect((await post('m', GOOD)).status).toBe(200);
  expect(services.admission.bytesInFlight).toBe(0);
  await app.close();
});

function post(model: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) {
  return fetch(`http://127.0.0.1:${port}/v2/models/${model}/infer`, { method: 'POST', body, headers });
}

test('a body of 10 MB that would become 10 GB is 413 and costs bounded memory (A22)', async () => {
  const bomb = Buffer.concat(Array.from({ length: 10_000 }, () => MEMBER));
  const before = process.memoryUsage().rss;
  const response = await post('m', bomb, { 'content-encoding': 'gzip' });
  expect(response.status).toBe(413);
  expect(await response.json()).toEqual({ error: `the request body is larger than the limit of ${64 * MiB} bytes` });
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * MiB);
});

test('many of them at once get no more than there is, and leave nothing behind', async () => {
  const bomb = Buffer.concat(Array.from({ length: 1000 }, () => MEMBER));
  let mostInFlight = 0;
  const watch = setInterval(() => (mostInFlight = Math.max(mostInFlight, services.admission.bytesInFlight)), 1);
  const responses = await Promise.all(Array.from({ length: 8 }, () => post('m', bomb, { 'content-encoding': 'gzip' })));
  clearInterval(watch);
  for (const { status } of responses) expect([413, 429]).toContain(status);
  await Promise.all(responses.map((response) => response.json()));
  expect(mostInFlight).toBeLessThanOrEqual(160 * MiB);
});

test('a compressed body that comes in small pieces is read, and the connection kept', async () => {
  const connection = new RawConnection(port);
  const packed = gzipSync(GOOD);
  for (let round = 0; round < 2; round++) {
    connection.clear();
    connection.send('POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n');
    connection.send('Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (const byte of packed)
      connection.send(Buffer.concat([Buffer.from('1\r\n'), Buffer.of(byte), Buffer.from('\r\n')]));
    connection.send('0\r\n\r\n');
    await connection.until(/HTTP\/1\.1 200 .*"data":\[1\]/s);
  }
  connection.socket.destroy();
});

test.each([
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
] as const)(
  'bytes behind the end of %s data are 400, with the data or later, and the connection kept',
  async (coding, pack) => {
    const connection = new RawConnection(port);
    const packed = pack(GOOD);
    for (const tail of [Buffer.of(1), Buffer.alloc(300_000, 'x')]) {
      connection.clear();
      connection.send(
        `POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: ${coding}\r\nContent-Length: ${packed.length + tail.length}\r\n\r\n`,
      );
      connection.send(packed);
      connection.send(tail);
      await connection.until(
        /HTTP\/1\.1 400 .*"error":"the request body (?:is not valid|goes on behind|ends in the middle)/s,
      );
    }
    connection.socket.destroy();
  },
);

test('a client that goes away in the middle of its compressed body costs nothing', async () => {
  const connection = new RawConnection(port);
  connection.send(
    'POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 100000\r\n\r\n',
  );
  connection.send(MEMBER);
  await until('some of it has been read', () => services.admission.bytesInFlight > MiB / 2);
  connection.socket.destroy();
  await until('all of it is forgotten', () => services.admission.bytesInFlight === 0);
  expect(dispatcher.seen).toEqual([]);
});

test('a client that goes away while its answer is compressed costs nothing', async () => {
  const text = 'x'.repeat(8 * MiB);
  const body = JSON.stringify({ inputs: [jsonInput('x', 'BYTES', [1, 1], [text])] });
  dispatcher.hold();
  const connection = new RawConnection(port);
  connection.sendInfer('text', body, 'Accept-Encoding: gzip\r\n');
  await until('the request is there', () => dispatcher.seen.length === 1);
  dispatcher.ignoresCancel = true;
  dispatcher.letGo();
  connection.socket.destroy();
  await until('nothing is in hand', () => services.admission.bytesInFlight === 0);
});
