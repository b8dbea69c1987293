import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DATATYPES } from '../../../shared/tensor/datatype.ts';
import { FakeDispatcher, fakeIdentity, fakeModel, fakeSpec } from '../../support/fake-dispatcher.ts';
import { encodeRequest, floats, GrpcInferServer, rawRequest } from '../../support/grpc-infer.ts';

let dispatcher: FakeDispatcher;
let server: GrpcInferServer;
beforeEach(async () => {
  dispatcher = new FakeDispatcher([
    ...DATATYPES.map((datatype) => fakeIdentity(`id_${datatype.toLowerCase()}`, datatype)),
    fakeModel('scalar', {
      maxBatchSize: 0,
      inputs: [fakeSpec('x', 'FP32', [])],
      outputs: [fakeSpec('y', 'FP32', [])],
    }),
    fakeIdentity('classify', 'FP32', {
      outputs: [fakeSpec('y', 'FP32', [-1, -1], { labels: ['ant', 'bee', 'cat'] })],
    }),
    fakeModel('two', {
      inputs: [fakeSpec('a', 'FP32', [-1, -1]), fakeSpec('b', 'INT32', [-1, -1])],
      outputs: [fakeSpec('c', 'FP32', [-1, -1]), fakeSpec('d', 'INT32', [-1, -1])],
    }),
  ]);
  server = await GrpcInferServer.start(dispatcher, { maxMessageBytes: 2_000_000 });
});
afterEach(async () => {
  const answer = await server.infer(rawRequest('id_fp32', [x([1, 2], 1, 2.5)]));
  expect(answer.rawOutputContents.map((raw) => Buffer.from(raw))).toEqual([Buffer.from(floats(1, 2.5))]);
  await expect.poll(() => server.services.admission.requestsInFlight).toBe(0);
  await expect.poll(() => server.services.admission.bytesInFlight).toBe(0);
  await server.stop();
});

function x(shape: readonly number[], ...values: number[]) {
  return { name: 'x', datatype: 'FP32', shape, data: floats(...values) };
}

describe('an answer', () => {
  test('names model and version, echoes the id, and has every output raw', async () => {
    const data = Buffer.from(Int32Array.of(7, 8).buffer);
    const answer = await server.infer(
      rawRequest(
        'two',
        [
          { name: 'a', datatype: 'FP32', shape: [1, 1], data: floats(0.5) },
          { name: 'b', datatype: 'INT32', shape: [1, 2], data },
        ],
        { id: 'ünï-☃' },
      ),
    );
    expect([answer.modelName, answer.modelVersion, answer.id]).toEqual(['two', '1', 'ünï-☃']);
    expect(answer.outputs.map(({ name, datatype, shape, contents }) => ({ name, datatype, shape, contents }))).toEqual([
      { name: 'c', datatype: 'FP32', shape: [1n, 1n], contents: undefined },
      { name: 'd', datatype: 'INT32', shape: [1n, 2n], contents: undefined },
    ]);
    expect(answer.rawOutputContents.map((raw) => Buffer.from(raw))).toEqual([Buffer.from(floats(0.5)), data]);
    expect(answer.parameters).toEqual({});
  });

  test('has only the outputs that were asked for', async () => {
    const inputs = [
      { name: 'a', datatype: 'FP32', shape: [1, 1], data: floats(0.5) },
      { name: 'b', datatype: 'INT32', shape: [1, 1], data: floats(1) },
    ];
    const answer = await server.infer(rawRequest('two', inputs, { outputs: [{ name: 'd' }] }));
    expect(answer.outputs.map(({ name }) => name)).toEqual(['d']);
    expect(answer.rawOutputContents).toHaveLength(1);
  });

  test('keeps the place of an empty tensor, and the shape of a scalar (A16, A19)', async () => {
    const empty = await server.infer(rawRequest('id_fp32', [x([2, 0])]));
    expect(empty.outputs[0]?.shape).toEqual([2n, 0n]);
    expect(empty.rawOutputContents.map(({ length }) => length)).toEqual([0]);
    const scalar = await server.infer(rawRequest('scalar', [x([], 3)]));
    expect(scalar.outputs[0]?.shape).toEqual([]);
    expect(scalar.rawOutputContents[0]).toHaveLength(4);
  });

  test('holds the best classes with their labels, as BYTES (A21)', async () => {
    const outputs = [{ name: 'y', parameters: { classification: int64(2) } }];
    const answer = await server.infer(rawRequest('classify', [x([1, 3], 1, 5, 3)], { outputs }));
    expect(answer.outputs[0]).toMatchObject({ name: 'y', datatype: 'BYTES', shape: [1n, 2n] });
    expect(Buffer.from(answer.rawOutputContents[0] ?? []).toString('latin1')).toBe(
      `\x0e\0\0\x005.000000:1:bee\x0e\0\0\x003.000000:2:cat`,
    );
  });

  test('of typed contents has the same values as that of raw ones (B04)', async () => {
    const typed = await server.infer({
      modelName: 'id_int64',
      inputs: [
        {
          name: 'x',
          datatype: 'INT64',
          shape: [1n, 3n],
          contents: { int64Contents: [-1n, 2n ** 53n + 1n, -(2n ** 63n)] },
        },
      ],
    });
    expect(typed.rawOutputContents.map((raw) => new BigInt64Array(new Uint8Array(raw).buffer))).toEqual([
      BigInt64Array.of(-1n, 2n ** 53n + 1n, -(2n ** 63n)),
    ]);
  });
});

describe('a request is refused with INVALID_ARGUMENT', () => {
  const data = floats(1, 2);
  const input = (more: object) => ({ name: 'x', datatype: 'FP32', shape: [1n, 2n], ...more });
  const one = (more: object, raw: Uint8Array[] = [data]) => ({
    modelName: 'id_fp32',
    inputs: [input(more)],
    rawInputContents: raw,
  });

  test.each([
    ['a negative dimension (B01)', one({ shape: [-1n, 2n] }), 'input x: shape must be an array of integers from 0 up'],
    ['a shape that overflows (A18)', one({ shape: [2n ** 62n, 4n] }), 'input x: shape'],
    ['65 dimensions (A18)', one({ shape: Array.from({ length: 65 }, () => 1n) }), '65 dimensions'],
    ['thousands of dimensions', one({ shape: Array.from({ length: 5000 }, () => 1n) }), 'dimensions'],
    ['the wrong size (A06)', one({}, [floats(1, 2, 3)]), 'input x: expected 8 bytes, got 12'],
    ['an unknown datatype (A24)', one({ datatype: 'FLOAT' }), '"FLOAT" is no datatype, expected FP32'],
    ['another datatype (A24)', one({ datatype: 'INT32' }), 'model id_fp32, input x: expected datatype FP32, got INT32'],
    ['no name', one({ name: '' }), 'name of an input'],
    [
      'the same input twice (A24)',
      { ...one({}), inputs: [input({}), input({})], rawInputContents: [data, data] },
      'twice',
    ],
    ['no inputs', { modelName: 'id_fp32' }, 'inputs is empty'],
    ['no contents at all', one({}, []), 'neither contents nor raw_input_contents'],
    ['raw contents too many', one({}, [data, data]), 'unexpected additional input data'],
    ['both kinds of contents', one({ contents: { fp32Contents: [1, 2] } }), 'raw_input_contents'],
    [
      'the wrong list (B03)',
      one({ contents: { fp64Contents: [1, 2] } }, []),
      'FP32 belongs into fp32_contents, and fp64_contents is given',
    ],
    ['too few elements', one({ contents: { fp32Contents: [1] } }, []), '2 elements expected, 1 given'],
    ['an unknown output (A21)', { ...one({}), outputs: [{ name: 'NO' }] }, 'unknown output NO, expected y'],
    ['an output twice (A21)', { ...one({}), outputs: [{ name: 'y' }, { name: 'y' }] }, 'listed twice'],
    [
      '10 000 outputs (A21)',
      { ...one({}), outputs: Array.from({ length: 10_000 }, (_, i) => ({ name: `o${i}` })) },
      'outputs has more than 1024 entries',
    ],
    [
      'a classification that is no number',
      { ...one({}), outputs: [{ name: 'y', parameters: { classification: text('2') } }] },
      'classification must be int64_param',
    ],
    [
      'a version that is no number',
      { ...one({}), modelVersion: 'newest' },
      'model_version must be a number, got "newest"',
    ],
    ['an id of 10 kB (A25)', { ...one({}), id: 'x'.repeat(10_000) }, 'id must be a string of at most 1024'],
    ['a reserved parameter', { ...one({}), parameters: { triton_own: text('x') } }, 'reserved'],
    [
      'FP16 as typed contents (B03)',
      { modelName: 'id_fp16', inputs: [input({ datatype: 'FP16', contents: { fp32Contents: [1, 2] } })] },
      'FP16 has no typed contents',
    ],
    [
      'INT64 in int_contents (B03)',
      { modelName: 'id_int64', inputs: [input({ datatype: 'INT64', contents: { intContents: [1, 2] } })] },
      'INT64 belongs into int64_contents, and int_contents is given',
    ],
    [
      'UINT8 beyond its range (A15)',
      { modelName: 'id_uint8', inputs: [input({ datatype: 'UINT8', contents: { uintContents: [1, 256] } })] },
      'element 1: expected an integer from 0 to 255, got 256',
    ],
    [
      'a BYTES element without its length (A07)',
      {
        modelName: 'id_bytes',
        inputs: [input({ datatype: 'BYTES', shape: [1n, 1n] })],
        rawInputContents: [Buffer.from('\xff\xd8\xff\xe0 raw JPEG', 'latin1')],
      },
      'little-endian',
    ],
    [
      'classes of BYTES',
      {
        modelName: 'id_bytes',
        inputs: [input({ datatype: 'BYTES', shape: [1n, 1n] })],
        rawInputContents: [Buffer.from('\0\0\0\0')],
        outputs: [{ name: 'y', parameters: { classification: int64(1) } }],
      },
      'not possible for datatype BYTES',
    ],
  ])('for %s', async (_, request, message) => {
    const refusal = await server.refusal(request);
    expect([refusal.code, refusal.details]).toEqual([status.INVALID_ARGUMENT, expect.stringContaining(message)]);
  });

  test('for bytes that are no message', async () => {
    for (const bytes of [Buffer.from('ffffffff', 'hex'), encodeRequest(one({})).subarray(0, 20)]) {
      const refusal = await server.refusal(bytes);
      expect([refusal.code, refusal.details]).toEqual([
        status.INVALID_ARGUMENT,
        expect.stringContaining('the message is no ModelInferRequest'),
      ]);
    }
  });
});

test('a model or version that is not there is NOT_FOUND, whatever its name looks like (B09)', async () => {
  for (const [modelName, modelVersion] of [
    ['none', ''],
    ['', ''],
    ['id_fp32', '9'],
    ['../id_fp32', ''],
    ['\ud83d', ''],
  ]) {
    const refusal = await server.refusal(
      rawRequest(modelName ?? '', [x([1, 1], 1)], { modelVersion: modelVersion ?? '' }),
    );
    expect(refusal.code, refusal.details).toBe(status.NOT_FOUND);
  }
});

test('an error names the id of the request, and its metadata the id of the call', async () => {
  const request = rawRequest('id_fp32', [x([1, 2], 1)], { id: 'my-77' });
  const refusal = await server.refusal(request, { headers: { 'x-request-id': 'call-5' } });
  expect(refusal.details).toMatch(/^\[request id: my-77\] /);
  expect(refusal.metadata.get('x-request-id')).toEqual(['call-5']);
});

describe('parameters', () => {
  test('reach the model exactly, and priority the scheduler', async () => {
    const parameters = {
      sequence_id: text('s'),
      sequence_start: { parameterChoice: { case: 'boolParam', value: true } },
      priority: { parameterChoice: { case: 'uint64Param', value: 2n } },
      timeout: int64(5_000_000),
      large: { parameterChoice: { case: 'int64Param', value: 2n ** 60n + 1n } },
      factor: { parameterChoice: { case: 'doubleParam', value: 0.5 } },
      triton_enable_empty_final_response: { parameterChoice: { case: 'boolParam', value: true } },
      __proto__x: text('y'),
    } as const;
    await server.infer(rawRequest('id_fp32', [x([1, 1], 1)], { parameters }));
    const { request, call } = dispatcher.seen[0]!;
    expect(request.parameters).toEqual({
      sequence_id: 's',
      sequence_start: true,
      priority: 2,
      timeout: 5_000_000,
      large: 2n ** 60n + 1n,
      factor: 0.5,
      __proto__x: 'y',
    });
    expect(call.priority).toBe(2);
  });

  test.each([
    ['sequence_start', int64(1)],
    ['sequence_id', { parameterChoice: { case: 'boolParam', value: true } }],
    ['priority', text('1')],
    ['priority', int64(-1)],
    ['timeout', text('1')],
    ['timeout', { parameterChoice: { case: 'uint64Param', value: 1n } }],
    ['timeout', int64(-1)],
    ['triton_enable_empty_final_response', int64(1)],
    ['own', { parameterChoice: { case: 'uint64Param', value: 1n } }],
    ['own', { parameterChoice: { case: 'doubleParam', value: NaN } }],
    ['own', {}],
  ] as const)('of the wrong type are refused: %s', async (key, value) => {
    const refusal = await server.refusal(rawRequest('id_fp32', [x([1, 1], 1)], { parameters: { [key]: value } }));
    expect([refusal.code, refusal.details]).toEqual([
      status.INVALID_ARGUMENT,
      expect.stringMatching(new RegExp(`^parameter ${key} must be `)),
    ]);
  });
});

describe('a call that nobody waits for', () => {
  test('is cancelled when its deadline passes (B07)', async () => {
    dispatcher.hold();
    const answer = server.infer(rawRequest('id_fp32', [x([1, 1], 1)]), { timeoutMs: 300 });
    await expect(answer).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    await expect.poll(() => dispatcher.seen[0]?.call.error?.code).toMatch(/^(DEADLINE_EXCEEDED|CANCELLED)$/); // the client's clock may be ahead
    dispatcher.letGo();
  });

  test('is cancelled with its client (B07)', async () => {
    dispatcher.hold();
    const { answer, cancel } = server.call(encodeRequest(rawRequest('id_fp32', [x([1, 1], 1)])));
    await expect.poll(() => dispatcher.seen.length).toBe(1);
    cancel();
    await expect(answer).rejects.toMatchObject({ code: status.CANCELLED });
    await expect.poll(() => dispatcher.seen[0]?.call.error?.code).toBe('CANCELLED');
    dispatcher.letGo();
  });
});

test('the server is busy rather than full of requests that wait', async () => {
  await server.stop();
  server = await GrpcInferServer.start(dispatcher, { maxRequestsInFlight: 1 });
  dispatcher.hold();
  const first = server.infer(rawRequest('id_fp32', [x([1, 1], 1)]));
  await expect.poll(() => dispatcher.seen.length).toBe(1);
  const refusal = await server.refusal(rawRequest('id_fp32', [x([1, 1], 1)]));
  expect(refusal.code).toBe(status.RESOURCE_EXHAUSTED);
  dispatcher.letGo();
  await first;
});

function int64(value: number) {
  return { parameterChoice: { case: 'int64Param', value: BigInt(value) } } as const;
}

function text(value: string) {
  return { parameterChoice: { case: 'stringParam', value } } as const;
}
