import { describe, expect, test } from 'vitest';
import { binaryInput, type InferAnswer, jsonInput, postInfer, splitAnswer } from '../../../../support/http-app.ts';
import { useInferFixture } from './infer-fixture.ts';

const fixture = useInferFixture();

describe('the request', () => {
  const inputs = [jsonInput('x', 'FP32', [1, 1], [1])];

  test('must be JSON of the right form', async () => {
    const cases: [unknown, string][] = [
      ['{', 'cannot be parsed'],
      ['', 'no body'],
      ['[1]', 'the request must be an object'],
      [{}, 'inputs must be an array, got nothing'],
      [{ inputs: {} }, 'inputs must be an array'],
      [{ inputs: [] }, 'inputs is empty'],
      [{ inputs: [1] }, 'inputs[0] must be an object'],
      [{ inputs: [{ ...inputs[0], name: undefined }] }, 'inputs[0]: name must be'],
      [{ inputs: [{ ...inputs[0], shape: undefined }] }, 'shape must be an array of integers'],
      [{ inputs: [{ ...inputs[0], datatype: undefined }] }, 'nothing is no datatype'],
      [{ inputs: [{ ...inputs[0], data: 5 }] }, 'data must be an array'],
      [{ inputs, parameters: [1] }, 'parameters must be an object'],
      [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'not valid UTF-8'],
    ];
    for (const [body, expected] of cases) expect(await fixture.refused('id_fp32', body)).toContain(expected);
  });

  test('echoes a legal id exactly and refuses others (A25)', async () => {
    for (const id of ['42', 'a b', 'ünï-☃', 'x'.repeat(500), '"quoted" \\ \n']) {
      const response = await postInfer(fixture.app, 'id_fp32', {
        id,
        inputs,
        parameters: { binary_data_output: true },
      });
      expect(splitAnswer(response).head.id).toBe(id);
    }
    for (const id of [7, null, {}, 'x'.repeat(10_000)]) {
      expect(await fixture.refused('id_fp32', { id, inputs })).toContain('id must be a string');
    }
    for (const more of [{}, { id: '' }]) {
      expect((await postInfer(fixture.app, 'id_fp32', { inputs, ...more })).payload).not.toContain('"id"');
    }
  });

  test('has its id in front of every error that it causes', async () => {
    const codec = await fixture.refused('id_fp32', { id: 'my-id', inputs: [{ ...inputs[0], data: [] }] });
    expect(codec).toMatch(/^\[request id: my-id\] input x/);
    const service = await fixture.refused('id_fp32', { id: 'my-id', inputs: [{ ...inputs[0], name: 'NO' }] });
    expect(service).toMatch(/^\[request id: my-id\] model id_fp32/);
  });

  test('hands custom parameters on, with their types, and exact beyond 2^53', async () => {
    const text = `{"inputs":${JSON.stringify(inputs)},"parameters":{"s":"x","n":3,"f":1.5,"b":true,"big":9007199254740993,"__proto__":"p","binary_data_output":false}}`;
    expect((await postInfer(fixture.app, 'id_fp32', text)).statusCode).toBe(200);
    const { parameters } = fixture.dispatcher.seen[0]!.request;
    expect(Object.entries(parameters)).toEqual([
      ['s', 'x'],
      ['n', 3],
      ['f', 1.5],
      ['b', true],
      ['big', 9007199254740993n],
      ['__proto__', 'p'],
    ]);
  });

  test('refuses parameters of the wrong kind by name', async () => {
    const cases: [string, unknown][] = [
      ['priority', -1],
      ['priority', '1'],
      ['priority', 1.5],
      ['timeout', '1'],
      ['sequence_start', 1],
      ['sequence_id', -1],
      ['sequence_id', true],
      ['sequence_id', 18446744073709551616n],
      ['binary_data_output', 1],
      ['triton_own', 1],
      ['own', null],
      ['own', [1]],
      ['own', { a: 1 }],
    ];
    for (const [key, value] of cases) {
      expect(await fixture.refused('id_fp32', { inputs, parameters: { [key]: value } })).toContain(`parameter ${key}`);
    }
    const text = `{"inputs":${JSON.stringify(inputs)},"parameters":{"own":99999999999999999999999}}`;
    expect(await fixture.refused('id_fp32', text)).toContain('parameter own');
  });

  test('gives the call its priority', async () => {
    await postInfer(fixture.app, 'id_fp32', { inputs, parameters: { priority: 2 } });
    expect(fixture.dispatcher.seen[0]?.call.priority).toBe(2);
  });

  test('may choose the version in the path, and an unknown model or version is 404', async () => {
    const response = await postInfer(fixture.app, 'id_fp32', { inputs }, { version: '1' });
    expect(response.json<InferAnswer>().model_version).toBe('1');
    expect(await fixture.refused('id_fp32', { inputs }, { version: '9' }, 404)).toContain('9');
    expect(await fixture.refused('no_such_model', { inputs }, {}, 404)).toContain('no_such_model');
    expect(await fixture.refused('id_fp32%00', { inputs }, {}, 404)).toBeTruthy();
  });

  test.each([
    undefined,
    'application/json',
    'application/octet-stream',
    'text/plain',
    'application/x-www-form-urlencoded',
  ])('is read whatever its content type says: %s', async (type) => {
    const headers = type === undefined ? {} : { 'content-type': type };
    expect((await postInfer(fixture.app, 'id_fp32', { inputs }, { headers })).statusCode).toBe(200);
  });

  test('may be large in its binary part, not in its JSON (A03, A04)', async () => {
    const big = { inputs: [jsonInput('x', 'BYTES', [1, 1], ['x'.repeat(1_100_000)])] };
    expect(await fixture.refused('id_bytes', big, {}, 413)).toContain('1000000 bytes');
    expect(
      await fixture.refused(
        'id_bytes',
        big,
        { binary: Buffer.alloc(1), headers: { 'content-type': 'application/octet-stream' } },
        413,
      ),
    ).toContain('JSON part');
    const good = {
      inputs: [binaryInput('x', 'FP32', [1, 300_000], 1_200_000)],
      outputs: [{ name: 'y', parameters: { binary_data: true } }],
    };
    expect((await postInfer(fixture.app, 'id_fp32', good, { binary: Buffer.alloc(1_200_000) })).statusCode).toBe(200);
    const beyond = { headers: { 'content-type': 'application/octet-stream', 'inference-header-content-length': '0' } };
    expect(await fixture.refused('id_fp32', Buffer.alloc(2_000_001), beyond, 413)).toContain('2000000 bytes');
  });
});
