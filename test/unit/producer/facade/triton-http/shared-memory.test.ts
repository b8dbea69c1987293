import { truncateSync } from 'node:fs';
import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FakeDispatcher, fakeIdentity, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';
import {
  binaryInput,
  errorText,
  type InferAnswer,
  jsonInput,
  postInfer,
  splitAnswer,
  testApp,
} from '../../../../support/http-app.ts';
import { useShm } from '../../../../support/shm.ts';
import { bytesOf } from './infer-fixture.ts';

const SYSTEM = '/v2/systemsharedmemory';
const CUDA = '/v2/cudasharedmemory';
const FOUR = Buffer.from(new Float32Array([1, 2, 3, 4]).buffer);

const createShm = useShm();
let dispatcher: FakeDispatcher;
let app: FastifyInstance;

beforeEach(() => {
  dispatcher = new FakeDispatcher([
    fakeIdentity('floats', 'FP32'),
    fakeIdentity('texts', 'BYTES'),
    fakeModel('two', {
      inputs: [fakeSpec('a', 'FP32', [-1, 4]), fakeSpec('b', 'FP32', [-1, 4])],
      outputs: [fakeSpec('c', 'FP32', [-1, 4]), fakeSpec('d', 'FP32', [-1, 4])],
    }),
  ]);
  app = testApp(dispatcher, { allowClientShm: true });
});
afterEach(async () => {
  await app.inject({ method: 'POST', url: `${SYSTEM}/unregister` });
  await app.close();
});

function post(url: string, body?: unknown, headers: Record<string, string> = {}): Promise<LightMyRequestResponse> {
  const payload = body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) };
  return app.inject({ method: 'POST', url, headers, ...payload });
}

async function register(name: string, key: string, byteSize: number, offset?: number): Promise<void> {
  const response = await post(`${SYSTEM}/region/${name}/register`, { key, offset, byte_size: byteSize });
  expect([response.statusCode, response.payload]).toEqual([200, '']);
}

async function statusOf(path: string): Promise<unknown> {
  const response = await app.inject({ method: 'GET', url: path });
  expect(response.statusCode, response.payload).toBe(200);
  expect(response.headers['content-type']).toMatch(/^application\/json/);
  return response.json();
}

/** The parameters of a tensor in shared memory. */
function at(region: unknown, size: unknown, offset?: unknown) {
  return { shared_memory_region: region, shared_memory_byte_size: size, shared_memory_offset: offset };
}

function shmInput(name: string, parameters: object, shape = [1, 4], datatype = 'FP32') {
  return { name, datatype, shape, parameters };
}

async function refused(model: string, body: unknown, status: number, binary?: Uint8Array): Promise<string> {
  const response = await postInfer(app, model, body, binary ? { binary } : {});
  expect(response.statusCode, response.payload).toBe(status);
  return errorText(response);
}

describe('the routes of system shared memory', () => {
  test('register, show and forget regions', async () => {
    const { key } = createShm(FOUR);
    expect(await statusOf(`${SYSTEM}/status`)).toEqual([]);
    await register('one', key, 16);
    await register('two%20%2F', key.slice(1), 4, 8);
    expect(await statusOf(`${SYSTEM}/status`)).toEqual([
      { name: 'one', key, offset: 0, byte_size: 16 },
      { name: 'two /', key: key.slice(1), offset: 8, byte_size: 4 },
    ]);
    expect(await statusOf(`${SYSTEM}/region/one/status`)).toHaveLength(1);
    expect((await post(`${SYSTEM}/region/one/unregister`)).payload).toBe('');
    expect((await post(`${SYSTEM}/region/one/unregister`)).statusCode).toBe(200);
    expect(errorText(await app.inject(`${SYSTEM}/region/one/status`))).toContain('one is not registered');
    expect((await post(`${SYSTEM}/unregister`)).statusCode).toBe(200);
    expect(await statusOf(`${SYSTEM}/status`)).toEqual([]);
  });

  test.each([
    ['nothing', undefined, 'expected a JSON object'],
    ['broken JSON', '{"key"', 'cannot be parsed'],
    ['a list', [], 'must be an object'],
    ['no key', { byte_size: 4 }, 'key must be a string'],
    ['a number as key', { key: 1, byte_size: 4 }, 'key must be a string'],
    ['no size', { key: '/a' }, 'byte_size must be a whole number of bytes from 0 up, got nothing'],
    ['a text as size', { key: '/a', byte_size: '4' }, 'byte_size must be a whole number'],
    ['a size of 2^63', '{"key":"/a","byte_size":9223372036854775808}', 'byte_size must be a whole number'],
    ['a negative offset', { key: '/a', byte_size: 4, offset: -1 }, 'offset must be a whole number'],
    ['an offset of 2^63', '{"key":"/a","byte_size":1,"offset":9223372036854775808}', 'offset must be a whole number'],
    ['a path', { key: '/../etc/passwd', byte_size: 4 }, 'key must be a name'],
    ['a key that is not there', { key: '/millrace_test_missing', byte_size: 4 }, 'there is no shared memory object'],
  ])('refuse to register with %s', async (_what, body, text) => {
    const response = await post(`${SYSTEM}/region/one/register`, body);
    expect(response.statusCode).toBe(400);
    expect(errorText(response)).toContain(text);
  });

  test('say that a name is taken with 400', async () => {
    const { key } = createShm(FOUR);
    await register('one', key, 16);
    const again = await post(`${SYSTEM}/region/one/register`, { key, byte_size: 16 });
    expect([again.statusCode, errorText(again)]).toEqual([400, 'shared memory region one is registered already']);
  });

  test.each([
    { origin: 'http://evil.example' },
    { origin: 'http://localhost:8000' },
    { 'sec-fetch-site': 'cross-site' },
  ])('refuse a web page, which shows itself by %j', async (headers) => {
    const { key } = createShm(FOUR);
    const body = { key, byte_size: 16 };
    expect((await post(`${SYSTEM}/region/one/register`, body, headers)).statusCode).toBe(403);
    await register('one', key, 16);
    expect((await post(`${SYSTEM}/region/one/unregister`, undefined, headers)).statusCode).toBe(403);
    expect((await post(`${SYSTEM}/unregister`, undefined, headers)).statusCode).toBe(403);
    expect(await statusOf(`${SYSTEM}/status`)).toHaveLength(1);
  });

  test('answer 405 to the wrong verb', async () => {
    expect((await app.inject(`${SYSTEM}/region/one/register`)).statusCode).toBe(405);
    expect((await post(`${SYSTEM}/status`)).statusCode).toBe(405);
  });

  test('answer 501 where it is switched off, and the status all the same', async () => {
    const off = testApp(dispatcher);
    for (const path of ['region/one/register', 'region/one/unregister', 'unregister']) {
      const payload = JSON.stringify({ key: '/a', byte_size: 4 });
      const response = await off.inject({ method: 'POST', url: `${SYSTEM}/${path}`, payload });
      expect([response.statusCode, errorText(response)]).toEqual([501, expect.stringContaining('--allow-client-shm')]);
    }
    expect((await off.inject(`${SYSTEM}/status`)).json()).toEqual([]);
    await off.close();
  });
});

describe('the routes of CUDA shared memory', () => {
  test('refuse to register with the reason, know no region, and have nothing to unregister', async () => {
    const handle = { raw_handle: { b64: 'AA==' }, device_id: 0, byte_size: 4 };
    const response = await post(`${CUDA}/region/one/register`, handle);
    expect([response.statusCode, errorText(response)]).toEqual([501, expect.stringContaining('CUDA memory')]);
    expect(await statusOf(`${CUDA}/status`)).toEqual([]);
    expect((await app.inject(`${CUDA}/region/one/status`)).statusCode).toBe(404);
    expect((await post(`${CUDA}/region/one/unregister`)).statusCode).toBe(200);
    expect((await post(`${CUDA}/unregister`)).statusCode).toBe(200);
  });
});

describe('an inference through shared memory', () => {
  test('reads the input from its region and writes the output to its own', async () => {
    const shm = createShm(Buffer.concat([Buffer.alloc(8), FOUR, Buffer.alloc(24)]));
    await register('in', shm.key, 16, 8);
    await register('out', shm.key, 24, 24);
    const response = await postInfer(app, 'floats', {
      inputs: [shmInput('x', at('in', 16))],
      outputs: [{ name: 'y', parameters: at('out', 20, 4) }],
    });
    expect(response.json()).toEqual({
      model_name: 'floats',
      model_version: '1',
      outputs: [{ name: 'y', datatype: 'FP32', shape: [1, 4] }],
    });
    expect(response.headers['inference-header-content-length']).toBeUndefined();
    expect(shm.bytes()).toEqual(Buffer.concat([Buffer.alloc(8), FOUR, Buffer.alloc(4), FOUR, Buffer.alloc(4)]));
  });

  test('mixes with binary data and JSON, on both sides', async () => {
    const shm = createShm(FOUR);
    await register('r', shm.key, 16);
    const other = Buffer.from(new Float32Array([5, 6, 7, 8]).buffer);
    const response = await postInfer(
      app,
      'two',
      {
        inputs: [shmInput('a', at('r', 16)), binaryInput('b', 'FP32', [1, 4], 16)],
        outputs: [
          { name: 'c', parameters: { binary_data: true } },
          { name: 'd', parameters: { binary_data: false, ...at('r', 16) } },
        ],
      },
      { binary: other },
    );
    const { head, tail } = splitAnswer(response);
    expect(head.outputs).toEqual([
      { name: 'c', datatype: 'FP32', shape: [1, 4], parameters: { binary_data_size: 16 } },
      { name: 'd', datatype: 'FP32', shape: [1, 4] },
    ]);
    expect([tail, shm.bytes()]).toEqual([FOUR, other]);
  });

  test('carries BYTES, whose size is that of the range', async () => {
    const texts = bytesOf(['ab', '', 'ä']);
    const shm = createShm(Buffer.concat([texts, Buffer.alloc(100)]));
    await register('r', shm.key, shm.bytes().length);
    const outputs = [{ name: 'y', parameters: at('r', 100, texts.length) }];
    const input = shmInput('x', at('r', texts.length), [1, 3], 'BYTES');
    expect((await postInfer(app, 'texts', { inputs: [input], outputs })).statusCode).toBe(200);
    expect(shm.bytes().subarray(texts.length, 2 * texts.length)).toEqual(texts);
    const longer = shmInput('x', at('r', texts.length + 1), [1, 3], 'BYTES');
    expect(await refused('texts', { inputs: [longer] }, 400)).toContain('1 bytes left over after 3 elements');
  });

  test('goes on with the bytes that were there when it began', async () => {
    const shm = createShm(FOUR);
    await register('r', shm.key, 16);
    dispatcher.hold();
    const answer = postInfer(app, 'floats', { inputs: [shmInput('x', at('r', 16))] });
    await expect.poll(() => dispatcher.seen.length).toBe(1);
    truncateSync(shm.path, 0);
    await post(`${SYSTEM}/unregister`);
    dispatcher.letGo();
    expect((await answer).json<InferAnswer>().outputs[0]?.data).toEqual([1, 2, 3, 4]);
  });

  test('still writes to a region that was unregistered while it ran', async () => {
    const shm = createShm(Buffer.alloc(16));
    await register('r', shm.key, 16);
    dispatcher.hold();
    const answer = postInfer(app, 'floats', {
      inputs: [jsonInput('x', 'FP32', [1, 4], [1, 2, 3, 4])],
      outputs: [{ name: 'y', parameters: at('r', 16) }],
    });
    await expect.poll(() => dispatcher.seen.length).toBe(1);
    await post(`${SYSTEM}/unregister`);
    dispatcher.letGo();
    expect((await answer).statusCode).toBe(200);
    expect(shm.bytes()).toEqual(FOUR);
  });

  test('refuses what does not fit or is not there, without running the model', async () => {
    const shm = createShm(Buffer.alloc(64));
    await register('r', shm.key, 64);
    const input = jsonInput('x', 'FP32', [1, 4], [1, 2, 3, 4]);
    const inputOf = (parameters: object) => ({ inputs: [shmInput('x', parameters)] });
    const outputOf = (parameters: object) => ({ inputs: [input], outputs: [{ name: 'y', parameters }] });
    const cases: [object, number, string][] = [
      [inputOf(at('nowhere', 16)), 404, 'input x: shared memory region nowhere is not registered'],
      [outputOf(at('nowhere', 16)), 404, 'output y: shared memory region nowhere is not registered'],
      [
        inputOf(at('r', 16, 49)),
        400,
        'input x: shared memory region r has 64 bytes, too few for 16 bytes at offset 49',
      ],
      [outputOf(at('r', 16, 49)), 400, 'output y: shared memory region r has 64 bytes'],
      [inputOf(at('r', 12)), 400, 'input x: expected 16 bytes, got 12'],
      [inputOf(at('r', 64)), 400, 'input x: expected 16 bytes, got 64'],
      [inputOf(at('r', undefined)), 400, 'shared_memory_region is given without shared_memory_byte_size'],
      [inputOf(at(undefined, 16)), 400, 'shared_memory_byte_size is given without shared_memory_region'],
      [outputOf(at(undefined, undefined, 0)), 400, 'shared_memory_offset is given without shared_memory_region'],
      [inputOf(at(7, 16)), 400, 'shared_memory_region must be the name of a region, got 7'],
      [inputOf(at('', 16)), 400, 'shared_memory_region must be the name of a region'],
      [inputOf(at('r', '16')), 400, 'shared_memory_byte_size must be a whole number of bytes'],
      [inputOf(at('r', 16, -1)), 400, 'shared_memory_offset must be a whole number of bytes'],
      [inputOf(at('r', 16, 2 ** 63)), 400, 'shared_memory_offset must be a whole number of bytes'],
      [inputOf(at('r', 16, Number.MAX_SAFE_INTEGER)), 400, 'too few for 16 bytes'],
      [inputOf({ ...at('r', 16), binary_data_size: 16 }), 400, 'both binary_data_size and shared_memory_region'],
      [{ inputs: [{ ...input, parameters: at('r', 16) }] }, 400, 'both data and shared_memory_region'],
      [outputOf({ ...at('r', 16), binary_data: true }), 400, 'both shared memory and binary_data'],
      [outputOf({ ...at('r', 16), classification: 1 }), 400, 'both shared memory and classification'],
    ];
    for (const [body, status, text] of cases) {
      expect(await refused('floats', { id: '7', ...body }, status)).toContain(text);
    }
    expect(dispatcher.seen).toEqual([]);
    expect(shm.bytes()).toEqual(Buffer.alloc(64));
  });

  test('refuses an output that is larger than its place, and gives the region back', async () => {
    const shm = createShm(Buffer.alloc(16));
    await register('r', shm.key, 16);
    const inputs = [jsonInput('x', 'FP32', [1, 4], [1, 2, 3, 4])];
    const small = { inputs, outputs: [{ name: 'y', parameters: at('r', 12) }] };
    expect(await refused('floats', small, 400)).toContain('its 16 bytes do not fit into the 12 bytes');
    expect(shm.bytes()).toEqual(Buffer.alloc(16));
    const large = { inputs, outputs: [{ name: 'y', parameters: at('r', 16) }] };
    expect((await postInfer(app, 'floats', large)).statusCode).toBe(200);
  });
});

test('the server metadata names both extensions', async () => {
  const { extensions } = (await app.inject('/v2')).json<{ extensions: string[] }>();
  expect(extensions).toEqual(expect.arrayContaining(['system_shared_memory', 'cuda_shared_memory']));
});
