import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { DATATYPES } from '../../../shared/tensor/datatype.ts';
import { FakeDispatcher, fakeIdentity, fakeModel, fakeSpec } from '../../support/fake-dispatcher.ts';
import { binaryInput, type InferAnswer, jsonInput, testApp } from '../../support/http-app.ts';
import { Mutator } from '../../support/mutator.ts';
import { listen } from '../../support/raw-http.ts';

/** Kept, so that what was found once is tried for ever. */
const SEEDS = [1, 2, 3, 4, 5, 6];
const BATCHES = 8;
const REQUESTS_PER_BATCH = 25;

let app: FastifyInstance;
let port = 0;
let logged: unknown[];

beforeEach(async () => {
  logged = [];
  const log = (...entry: unknown[]): void => void logged.push(entry);
  const logger: Logger = { debug: () => undefined, info: () => undefined, warn: log, error: log };
  const models = [
    ...DATATYPES.map((datatype) => fakeIdentity(`id_${datatype.toLowerCase()}`, datatype)),
    fakeModel('two', {
      inputs: [fakeSpec('a', 'FP32', [-1, 4]), fakeSpec('b', 'BYTES', [-1, 2], { optional: true })],
      outputs: [fakeSpec('c', 'FP32', [-1, 4]), fakeSpec('d', 'BYTES', [-1, 2])],
    }),
  ];
  app = testApp(new FakeDispatcher(models), { maxJsonBytes: 100_000, maxBodyBytes: 200_000 }, { logger });
  port = await listen(app);
});
afterEach(() => app.close());

test.each(SEEDS)('no change of good requests does harm (seed %d)', async (seed) => {
  const mutator = new Mutator(seed, TOKENS);
  const seen = new Set<number>();
  for (let batch = 0; batch < BATCHES; batch++) {
    const requests = Array.from({ length: REQUESTS_PER_BATCH }, () => mutateRequest(mutator));
    const answers = await Promise.all(requests.map(exchange));
    for (const [i, answer] of answers.entries()) assertAnswer(answer, requests[i]!, seen);
    expect(await inferOnce()).toEqual([1, 2.5]);
    expect(logged).toEqual([]);
  }
  // Else the changes are too small or too large to try anything.
  expect([...seen]).toEqual(expect.arrayContaining([200, 400]));
});

interface Request {
  readonly line: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}

/** What breaks parsers: limits of integers, other notations, words, brackets, line ends. */
const TOKENS = [
  '-1',
  '0',
  '1e400',
  '9223372036854775808',
  '4294967296',
  'NaN',
  '-Infinity',
  'null',
  'true',
  '""',
  '"x"',
]
  .concat([
    '{}',
    '[]',
    '[[[[[[[[',
    ']]]]',
    '{"a":',
    '\\u0000',
    '\\ud800',
    '\u0000',
    '\r\n',
    '\r\n\r\n',
    ': ',
    '%00',
    '%',
  ])
  .concat(['../', 'gzip', 'deflate', 'br', 'chunked', '__proto__', 'parameters', 'binary_data_size', 'shape', '🙂'])
  .map((text) => Buffer.from(text));

const HEADERS: readonly (readonly [string, string])[] = [
  ['content-encoding', 'gzip'],
  ['content-encoding', 'deflate'],
  ['content-encoding', 'x'],
  ['accept-encoding', 'gzip, deflate'],
  ['accept-encoding', 'deflate;q=0.5, identity;q=0.4'],
  ['inference-header-content-length', '0'],
  ['inference-header-content-length', '10'],
  ['inference-header-content-length', '-1'],
  ['inference-header-content-length', '99999999999999999999'],
  ['transfer-encoding', 'chunked'],
  ['content-length', '5'],
  ['content-length', '99999999999'],
  ['content-type', ';;'],
  ['expect', '100-continue'],
  ['x-request-id', 'a b'],
  ['connection', 'close'],
];

const CORPUS: readonly Request[] = [
  infer('id_fp32', json({ id: 'a', inputs: [jsonInput('x', 'FP32', [2, 2], [1, [2.5, 'NaN'], -3e-9])] })),
  infer('id_fp64', Buffer.from('{"inputs":[{"name":"x","datatype":"FP64","shape":[1,2],"data":[NaN,-Infinity]}]}')),
  infer(
    'id_int64',
    Buffer.from('{"inputs":[{"name":"x","datatype":"INT64","shape":[1,1],"data":[9007199254740993]}]}'),
  ),
  infer('id_bytes', json({ inputs: [jsonInput('x', 'BYTES', [1, 2], ['a"\\', 'ü🙂'])], outputs: [{ name: 'y' }] })),
  infer(
    'id_bool',
    json({ inputs: [jsonInput('x', 'BOOL', [1, 2], [true, false])], parameters: { own: 1.5, b: true } }),
  ),
  binary('id_fp16', [binaryInput('x', 'FP16', [1, 4], 8)], Buffer.alloc(8, 0x7e), { binary_data_output: true }),
  binary('id_bytes', [binaryInput('x', 'BYTES', [1, 2], 11)], Buffer.from('\x02\0\0\0hi\x01\0\0\0x', 'latin1'), {}),
  binary(
    'two',
    [binaryInput('a', 'FP32', [1, 4], 16), jsonInput('b', 'BYTES', [1, 2], ['p', 'q'])],
    Buffer.alloc(16, 1),
    { priority: 1, timeout: 5 },
    [{ name: 'c', parameters: { classification: 2 } }],
  ),
  infer('id_uint8', Buffer.from([1, 2, 3]), [['inference-header-content-length', '0']]),
  infer('id_fp32', gzipSync(json({ inputs: [jsonInput('x', 'FP32', [1, 1], [1])] })), [
    ['content-encoding', 'gzip'],
    ['accept-encoding', 'gzip'],
  ]),
  { ...infer('id_fp32', json({ x: [1, 2, 3] })), line: 'POST /v2/models/id_fp32/generate HTTP/1.1' },
  { ...infer('id_fp32', json({ ready: true })), line: 'POST /v2/repository/index HTTP/1.1' },
  { line: 'GET /v2/models/id_fp32/versions/1/config HTTP/1.1', headers: [], body: Buffer.alloc(0) },
];

function infer(model: string, body: Buffer, headers: Request['headers'] = []): Request {
  return { line: `POST /v2/models/${model}/infer HTTP/1.1`, headers, body };
}

function binary(model: string, inputs: unknown[], tail: Buffer, parameters: object, outputs: unknown[] = []): Request {
  const head = json({ inputs, parameters, outputs });
  return infer(model, Buffer.concat([head, tail]), [['inference-header-content-length', String(head.length)]]);
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Most changes are in the body, some in the headers, and some anywhere in the bytes as they go out. */
function mutateRequest(mutator: Mutator): Buffer {
  const { line, headers, body } = mutator.pick(CORPUS);
  const kind = mutator.integer(10);
  const changedBody = kind < 7 ? mutator.mutate(body) : body;
  const more = kind >= 5 ? [mutator.pick(HEADERS)] : [];
  const lines = [...headers, ...more, ['content-length', String(changedBody.length)] as const];
  const head = `${line}\r\nhost: x\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  const bytes = Buffer.concat([Buffer.from(head), changedBody]);
  return kind === 9 ? mutator.mutate(bytes) : bytes;
}

/** Sends the bytes, says that no more will come, and gives everything that comes back. */
async function exchange(bytes: Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
  socket.on('error', () => undefined); // a reset is an answer too
  socket.end(bytes);
  await once(socket, 'close');
  return received;
}

/** Nothing at all, or answers that are right or blame the client. */
function assertAnswer(answer: string, request: Buffer, seen: Set<number>): void {
  const statuses = Array.from(answer.matchAll(/^HTTP\/1\.1 (\d{3}) /gm), ([, status]) => Number(status));
  const shown = `${JSON.stringify(request.toString('latin1'))}\n-> ${JSON.stringify(answer.slice(0, 1000))}`;
  if (answer !== '') expect(statuses.length, shown).toBeGreaterThan(0);
  // 501 is for encodings and parts of the protocol that are not there, 417 and 505 are Node's own.
  for (const status of statuses) {
    expect(status < 500 || status === 501 || status === 505, shown).toBe(true);
    seen.add(status);
  }
}

async function inferOnce(): Promise<readonly unknown[] | undefined> {
  const body = json({ inputs: [jsonInput('x', 'FP32', [1, 2], [1, 2.5])] });
  const response = await fetch(`http://127.0.0.1:${port}/v2/models/id_fp32/infer`, { method: 'POST', body });
  return ((await response.json()) as InferAnswer).outputs[0]?.data;
}
