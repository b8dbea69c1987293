import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FIXTURE_MODELS, makeFixtureRepository } from '../fixtures/make-models.ts';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

interface Call {
  readonly name: string;
  readonly status: number;
  /** Default: POST with a body, GET without one. */
  readonly method?: string;
  readonly path: string;
  readonly body?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Refused at load, each for a good reason. */
const NOT_LOADABLE = new Set(['fixed1']);

/** What may differ from answer to answer of one and the same server. */
const PASSING_HEADERS = ['date', 'x-request-id', 'server-timing'];

const photo = (name: string): Promise<Buffer> => readFile(join(ROOT, 'examples', 'photos', name));
const [coffee, camera, rocket, readme] = await Promise.all([
  photo('coffee.png'),
  photo('camera.png'),
  photo('rocket.jpg'),
  readFile(join(ROOT, 'README.md')),
]);

const CALLS: readonly Call[] = [
  { name: 'live', status: 200, path: '/v2/health/live' },
  { name: 'ready', status: 200, path: '/v2/health/ready' },
  { name: 'server metadata', status: 200, path: '/v2' },
  { name: 'the index', status: 200, path: '/v2/repository/index', body: '' },
  { name: 'the index of what is ready', status: 200, path: '/v2/repository/index', body: '{"ready":true}' },
  ...['simple', 'minilm', 'efficientnet_lite0_int8', 'img224'].flatMap((model): Call[] => [
    { name: `metadata of ${model}`, status: 200, path: `/v2/models/${model}` },
    { name: `metadata of ${model} by version`, status: 200, path: `/v2/models/${model}/versions/1` },
    { name: `configuration of ${model}`, status: 200, path: `/v2/models/${model}/config` },
    { name: `readiness of ${model}`, status: 200, path: `/v2/models/${model}/ready` },
    { name: `${model} for Hugging Face clients`, status: 200, path: `/models/${model}` },
  ]),
  { name: 'metadata of an unknown model', status: 404, path: '/v2/models/nothing' },
  { name: 'metadata of an unknown version', status: 404, path: '/v2/models/simple/versions/7' },
  { name: 'an unknown path', status: 404, path: '/v2/nothing' },
  { name: 'a method that is not allowed', status: 405, method: 'DELETE', path: '/v2/models/simple' },

  json('JSON', 200, 'rowsum', { inputs: [tensor('FP32', [2, 3], [1, 2, 3, 4, 5, 6])] }),
  json('an id, and parameters of its own', 200, 'rowsum', {
    id: 'my id ✓',
    parameters: { own: 'text', number: 7, yes: true },
    inputs: [tensor('FP32', [1, 1], [1])],
  }),
  json('a version', 200, 'rowsum/versions/1', { inputs: [tensor('FP32', [1, 1], [0.5])] }),
  json('two outputs', 200, 'simple', simple([1, 16])),
  json('one output of two', 200, 'simple', { ...simple([1, 16]), outputs: [{ name: 'OUTPUT1' }] }),
  json('outputs in binary form', 200, 'simple', { ...simple([8, 16]), parameters: { binary_data_output: true } }),
  json('classes instead of numbers', 200, 'mlp', {
    inputs: [tensor('FP32', [1, 32], Array<number>(32).fill(0.5))],
    outputs: [{ name: 'y', parameters: { classification: 3 } }],
  }),
  json('classes with labels', 200, 'digits_mlp', {
    inputs: [{ name: 'pixels', datatype: 'FP32', shape: [1, 64], data: Array<number>(64).fill(8) }],
    outputs: [{ name: 'probabilities', parameters: { classification: 2 } }],
  }),
  json(
    'numbers above 2^53',
    200,
    'id_i64',
    '{"inputs":[{"name":"x","datatype":"INT64","shape":[1,1],"data":[9007199254740993]}]}',
  ),
  json('infinity and what is no number', 200, 'logx', { inputs: [tensor('FP32', [1, 3], [0, -1, 1])] }),
  json('texts', 200, 'id_str', { inputs: [tensor('BYTES', [1, 3], ['水車', '', 'a "quoted" text\n'])] }),
  json('nothing at all', 200, 'id_nobatch', { inputs: [tensor('FP32', [0, 3], [])] }),
  json('an optional input that is left out', 200, 'two_in_opt', {
    inputs: [{ name: 'a', datatype: 'FP32', shape: [1, 2], data: [1, 2] }],
  }),
  ...(
    [
      ['id_bool', 'BOOL', '010001'],
      ['id_u8', 'UINT8', '00ff7f'],
      ['id_u64', 'UINT64', 'ffffffffffffffff0100000000000080'],
      ['id_i16', 'INT16', '0080ff7f'],
      ['id_f16', 'FP16', '003c00fc'],
      ['id_bf16', 'BF16', '803f80ff'],
      ['id_f64', 'FP64', '182d4454fb210940'],
      ['id_str', 'BYTES', '02000000ff0000000000'],
    ] as const
  ).map(([model, datatype, hex]) => binary(`${datatype} in binary form`, model, datatype, Buffer.from(hex, 'hex'))),
  binary('four megabytes', 'id_f32', 'FP32', Buffer.alloc(4 << 20, 'millrace')),

  json('what is no JSON', 400, 'simple', '{"inputs":'),
  json('an empty body', 400, 'simple', ''),
  json('no inputs', 400, 'simple', {}),
  json('an unknown input', 400, 'rowsum', { inputs: [{ ...tensor('FP32', [1, 1], [1]), name: 'z' }] }),
  json('a missing input', 400, 'simple', { inputs: simple([1, 16]).inputs.slice(1) }),
  json('another datatype', 400, 'rowsum', { inputs: [tensor('FP64', [1, 1], [1])] }),
  json('another shape', 400, 'simple', simple([1, 15])),
  json('more rows than a batch has', 400, 'simple', simple([9, 16])),
  json('too few numbers', 400, 'rowsum', { inputs: [tensor('FP32', [1, 3], [1, 2])] }),
  json('a negative dimension', 400, 'rowsum', { inputs: [tensor('FP32', [1, -3], [1, 2, 3])] }),
  json('a number that does not fit', 400, 'id_u8', { inputs: [tensor('UINT8', [1, 1], [256])] }),
  json('an unknown output', 400, 'simple', { ...simple([1, 16]), outputs: [{ name: 'OUTPUT9' }] }),
  json('an unknown model', 404, 'nothing', simple([1, 16])),
  json('an unknown version', 404, 'simple/versions/2', simple([1, 16])),
  json('a row at which the model fails', 400, 'div_int', { inputs: [tensor('INT64', [1, 1], [99])] }),
  json('a time limit for a queue policy that the model does not have', 200, 'rowsum', {
    inputs: [tensor('FP32', [1, 1], [1])],
    parameters: { timeout: 1 },
  }),
  json('halfs as JSON', 400, 'id_f16', { inputs: [tensor('FP16', [1, 1], [1])] }),
  json(
    'bare words for infinity and for what is no number',
    200,
    'id_f32',
    '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[NaN,-Infinity]}]}',
  ),
  {
    ...json('compression both ways', 200, 'simple', ''),
    body: gzipSync(JSON.stringify(simple([1, 16]))),
    headers: { 'content-encoding': 'gzip', 'accept-encoding': 'deflate' },
  },
  {
    ...json('a body that is not compressed as it says', 400, 'simple', simple([1, 16])),
    headers: { 'content-encoding': 'gzip' },
  },
  {
    ...json('an unknown compression', 501, 'simple', simple([1, 16])),
    headers: { 'content-encoding': 'br' },
  },

  generate('a flat list', 200, 'digits_mlp', { id: 'g', pixels: Array<number>(64).fill(8) }),
  generate('a single text', 200, 'id_str', { x: '水車', stream: false, parameters: { temperature: 0.5 } }),
  generate('an unknown key', 400, 'id_str', { y: ['a'] }),
  generate('an answer as an event', 200, 'digits_mlp', { pixels: Array<number>(64).fill(8) }, '_stream'),
  generate('an error as an event', 400, 'div_int', { x: [99] }, '_stream'),
  { name: 'the OpenAPI document', status: 200, path: '/openapi.json' },
  { name: 'the page over it', status: 200, path: '/docs' },

  { name: 'a photo', status: 200, path: '/models/efficientnet_lite0_int8', body: coffee },
  { name: 'a gray photo', status: 200, path: '/models/efficientnet_lite0_int8', body: camera },
  { name: 'a JPEG with a profile', status: 200, path: '/models/efficientnet_lite0_int8', body: rocket },
  task('a photo as base64, with a wish', 200, 'efficientnet_lite0_int8', {
    inputs: coffee.toString('base64'),
    parameters: { top_k: 2 },
  }),
  { name: 'what is no photo', status: 415, path: '/models/efficientnet_lite0_int8', body: 'no photo' },
  {
    name: 'a photo that is cut off',
    status: 400,
    path: '/models/efficientnet_lite0_int8',
    body: coffee.subarray(0, 9000),
  },
  { name: 'a photo for an unknown model', status: 404, path: '/models/nothing', body: coffee },
  task('a text', 200, 'minilm', { inputs: 'the water turns the wheel' }),
  task('several texts', 200, 'minilm', { inputs: ['one', 'and another, longer one', ''] }),
  task('a text for a model of photos', 400, 'efficientnet_lite0_int8', { inputs: 'not base64 at all!' }),
  task('no text', 400, 'minilm', { inputs: 7 }),
  { name: 'a file', status: 200, path: '/models/magika', body: readme },
  task('tensors only', 400, 'simple', { inputs: 'a text' }),

  openai('an embedding', 200, { model: 'minilm', input: 'a text' }),
  openai('embeddings in base64', 200, { model: 'minilm', input: ['a text', 'another'], encoding_format: 'base64' }),
  openai('token arrays', 400, { model: 'minilm', input: [[1, 2, 3]] }),
  openai('an embedding of an unknown model', 404, { model: 'nothing', input: 'a text' }),
  openai('no input', 400, { model: 'minilm' }),
  { name: 'the list for OpenAI clients', status: 200, path: '/v1/models' },
  { name: 'a model for OpenAI clients', status: 200, path: '/v1/models/minilm' },
  { name: 'an unknown model for OpenAI clients', status: 404, path: '/v1/models/nothing' },
];

describe('a client cannot tell producer from serve', () => {
  let folder = '';
  let redis: RedisServer;
  let serve: MillraceProcess;
  let producer: MillraceProcess;
  let worker: MillraceProcess;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
    makeFixtureRepository(
      folder,
      FIXTURE_MODELS.filter((name) => !NOT_LOADABLE.has(name)),
    );
    redis = await startRedis();
    const models = ['examples/models', folder].map((path) => `--model-repository=${path}`);
    const queue = [`--redis=${redis.url}`, '--log-info=false'];
    serve = await startMillrace(['serve', ...models, '--log-info=false']);
    worker = await startMillrace(['worker', ...models, ...queue]);
    producer = await startMillrace(['producer', ...queue]);
    await until('the producer knows the worker', async () => (await fetch(`${producer.url}/v2/health/ready`)).ok);
  });
  afterAll(async () => {
    await Promise.all([serve.stop(), producer.stop(), worker.stop()]);
    await redis.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test.each(CALLS)('$name', async (call) => {
    const [direct, queued] = await Promise.all([send(serve.url, call), send(producer.url, call)]);
    expect(direct.status, direct.body.toString('utf8', 0, 1000)).toBe(call.status);
    expect(comparable(queued)).toEqual(comparable(direct));
  });

  test('but for a link to the queue, the page is the same', async () => {
    const page = { name: 'page', status: 200, path: '/', headers: { accept: 'text/html' } };
    const [direct, queued] = await Promise.all([send(serve.url, page), send(producer.url, page)]);
    const link = 'href="/dashboard/"';
    expect(queued.body.toString()).toContain(link);
    expect(queued.body.toString().replace(link, 'href="/dashboard" hidden')).toBe(direct.body.toString());
  });

  test('and neither has logged a failure', () => {
    for (const { stderr } of [serve, producer, worker]) expect(stderr()).toBe('');
  });
});

function json(name: string, status: number, model: string, body: object | string): Call {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { name: `infer with ${name}`, status, path: `/v2/models/${model}/infer`, body: text };
}

/** One row of raw bytes in, and the same out. */
function binary(name: string, model: string, datatype: string, data: Buffer): Call {
  const size = { BOOL: 1, UINT8: 1, INT16: 2, FP16: 2, BF16: 2, FP32: 4, FP64: 8, UINT64: 8 }[datatype];
  const head = JSON.stringify({
    id: 'binary',
    inputs: [
      {
        name: 'x',
        datatype,
        shape: [1, size === undefined ? 2 : data.length / size],
        parameters: { binary_data_size: data.length },
      },
    ],
    outputs: [{ name: 'y', parameters: { binary_data: true } }],
  });
  return {
    name: `infer with ${name}`,
    status: 200,
    path: `/v2/models/${model}/infer`,
    headers: { 'inference-header-content-length': String(head.length) },
    body: Buffer.concat([Buffer.from(head), data]),
  };
}

function generate(name: string, status: number, model: string, body: object, form = ''): Call {
  return {
    name: `generate with ${name}`,
    status,
    path: `/v2/models/${model}/generate${form}`,
    body: JSON.stringify(body),
  };
}

function task(name: string, status: number, model: string, body: object): Call {
  return { name, status, path: `/models/${model}`, body: JSON.stringify(body) };
}

function openai(name: string, status: number, body: object): Call {
  return { name, status, path: '/v1/embeddings', body: JSON.stringify(body) };
}

function tensor(datatype: string, shape: number[], data: unknown[]) {
  return { name: 'x', datatype, shape, data };
}

function simple(shape: [number, number]) {
  const data = Array.from({ length: shape[0] * shape[1] }, (_, index) => index);
  return { inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape, data })) };
}

function send(url: string, { method, path, body, headers = {} }: Call): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${url}${path}`,
      { method: method ?? (body === undefined ? 'GET' : 'POST'), headers },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.once('error', reject);
        response.once('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      },
    );
    request.once('error', reject);
    request.end(body);
  });
}

function comparable({ status, headers, body }: Answer) {
  const kept = Object.entries(headers).filter(([name]) => !PASSING_HEADERS.includes(name));
  // When the server began to know its models.
  const text = body.toString('latin1').replace(/"created":\d+/g, '"created":0');
  return { status, headers: Object.fromEntries(kept), names: Object.keys(headers).sort(), body: text };
}
