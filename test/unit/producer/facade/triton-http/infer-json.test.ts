import { describe, expect, test } from 'vitest';
import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import { binaryInput, type InferAnswer, jsonInput, postInfer, splitAnswer } from '../../../../support/http-app.ts';
import { useInferFixture } from './infer-fixture.ts';

const fixture = useInferFixture();

describe('JSON data', () => {
  test('answers flat and nested data alike, flat, with name, datatype and shape', async () => {
    for (const data of [
      [1, 2, 3, 4],
      [
        [1, 2],
        [3, 4],
      ],
    ]) {
      const response = await postInfer(fixture.app, 'id_fp32', {
        id: '42',
        inputs: [jsonInput('x', 'FP32', [2, 2], data)],
      });
      expect(response.statusCode).toBe(200);
      expect(response.headers['content-type']).toBe('application/json');
      expect(response.headers['inference-header-content-length']).toBeUndefined();
      expect(response.json()).toEqual({
        id: '42',
        model_name: 'id_fp32',
        model_version: '1',
        outputs: [{ name: 'y', datatype: 'FP32', shape: [2, 2], data: [1, 2, 3, 4] }],
      });
    }
  });

  const VALUES: Partial<Record<Datatype, unknown[]>> = {
    BOOL: [true, false],
    UINT8: [0, 255],
    UINT16: [0, 65535],
    UINT32: [0, 4294967295],
    UINT64: [0, 18446744073709551615n, 9007199254740993n],
    INT8: [-128, 127],
    INT16: [-32768, 32767],
    INT32: [-2147483648, 2147483647],
    INT64: [-9223372036854775808n, 9223372036854775807n, 9007199254740993n, -9007199254740993n, -1, 4294967296],
    FP32: [1.5, -0.25, 'NaN', '-Infinity'],
    FP64: [1e-30, 0.1, 1.7e308, 'NaN', 'Infinity'],
    BYTES: ['', 'plain', 'quote " back \\ line\n', 'ünï☃🙂'],
  };

  test.each(Object.entries(VALUES))('round-trips the edges of %s', async (datatype, values) => {
    const body = { inputs: [jsonInput('x', datatype, [1, values.length], values)] };
    const response = await postInfer(fixture.app, `id_${datatype.toLowerCase()}`, body);
    expect(response.statusCode, response.payload).toBe(200);
    const text = /"data":(\[.*\])\}\]\}$/s.exec(response.payload)?.[1];
    if (datatype === 'INT64' || datatype === 'UINT64') expect(text).toBe(`[${values.map(String).join(',')}]`);
    else expect(JSON.parse(text ?? '')).toEqual(values);
  });

  test('says that a shape must be an array of integers (A01, A25)', async () => {
    const body = { inputs: [{ name: 'x', shape: '-1', datatype: 'STRING', data: [{ b64: 'AA==' }] }] };
    expect(await fixture.refused('id_fp32', body)).toContain('shape must be an array of integers');
    expect(await fixture.refused('id_fp32', { inputs: [jsonInput('x', 'FP32', 4, [1])] })).toContain(
      'array of integers',
    );
    expect(await fixture.refused('id_fp32', { inputs: [jsonInput('x', 'FP32', [1, 1], 'AACAPw==')] })).toContain(
      'an array',
    );
  });

  test('counts elements exactly (A09)', async () => {
    const one = { inputs: [jsonInput('x', 'BYTES', [1, 59], ['x'.repeat(59)])] };
    expect(await fixture.refused('id_bytes', one)).toContain('59 elements expected, 1 given');
    for (const data of [[1, 2, 3], [[1, 2], [3]], [1, 2, 3, 4, 5], []]) {
      const text = await fixture.refused('id_fp32', { inputs: [jsonInput('x', 'FP32', [2, 2], data)] });
      expect(text).toContain('input x: 4 elements expected');
    }
  });

  test.each(['FP16', 'BF16'])('says that %s cannot travel as JSON, either way (A10)', async (datatype) => {
    const model = `id_${datatype.toLowerCase()}`;
    expect(await fixture.refused(model, { inputs: [jsonInput('x', datatype, [1, 2], [1.5, 65504])] })).toContain(
      `input x: ${datatype} cannot travel as JSON`,
    );
    const inputs = [binaryInput('x', datatype, [1, 2], 4)];
    expect(await fixture.refused(model, { inputs }, { binary: Buffer.alloc(4) })).toContain(
      `output y: ${datatype} cannot travel as JSON; ask for it with binary_data: true`,
    );
  });

  test('carries FP16 bits unchanged in binary, NaN payload and -0 included (A10)', async () => {
    const bits = Buffer.from(new Uint16Array([0x7e01, 0xfc00, 0x8000, 0x0001]).buffer);
    const body = { inputs: [binaryInput('x', 'FP16', [1, 4], 8)], parameters: { binary_data_output: true } };
    expect(splitAnswer(await postInfer(fixture.app, 'id_fp16', body, { binary: bits })).tail).toEqual(bits);
  });

  test('writes NaN and infinities as strings in JSON and as bits in binary (A12)', async () => {
    const bits = Buffer.from(new Float32Array([-Infinity, NaN, 0]).buffer);
    const inputs = [binaryInput('x', 'FP32', [1, 3], 12)];
    const asJson = await postInfer(fixture.app, 'id_fp32', { inputs }, { binary: bits });
    expect(asJson.statusCode).toBe(200);
    expect(asJson.json<InferAnswer>().outputs[0]?.data).toEqual(['-Infinity', 'NaN', 0]);
    const asBinary = await postInfer(
      fixture.app,
      'id_fp32',
      { inputs, parameters: { binary_data_output: true } },
      { binary: bits },
    );
    expect(splitAnswer(asBinary).tail).toEqual(bits);
  });

  const bare = (data: string, more = '') =>
    `{"inputs":[{"name":"x","shape":[1,${data.split(',').length}],"datatype":"FP32","data":[${data}]}]${more}}`;

  test('answers bare words for NaN and infinity with bare words, as Triton does (A12, A13)', async () => {
    const response = await postInfer(fixture.app, 'id_fp32', bare('NaN,Infinity,-Infinity,Inf,-Inf,1.5'));
    expect(response.payload).toContain('"data":[NaN,Infinity,-Infinity,Infinity,-Infinity,1.5]');
  });

  test('writes bare words or strings as bare_nan says, whatever the request wrote (A12)', async () => {
    const parameters = (value: boolean) => `,"parameters":{"bare_nan":${value},"own":1}`;
    const strict = await postInfer(fixture.app, 'id_fp32', bare('NaN,1', parameters(false)));
    expect(strict.json<InferAnswer>().outputs[0]?.data).toEqual(['NaN', 1]);
    const loose = await postInfer(fixture.app, 'id_fp32', bare('"NaN","-Infinity"', parameters(true)));
    expect(loose.payload).toContain('"data":[NaN,-Infinity]');
    expect(fixture.dispatcher.seen.at(-1)?.request.parameters).toEqual({ own: 1 });
    expect(await fixture.refused('id_fp32', bare('1', ',"parameters":{"bare_nan":1}'))).toContain('parameter bare_nan');
  });

  test('takes bare words as floats and nothing else', async () => {
    for (const [datatype, expected] of [
      ['INT32', 'an integer'],
      ['INT64', 'an integer'],
      ['BYTES', 'a string'],
      ['BOOL', 'true or false'],
    ] as const) {
      const body = `{"inputs":[{"name":"x","shape":[1,1],"datatype":"${datatype}","data":[NaN]}]}`;
      expect(await fixture.refused(`id_${datatype.toLowerCase()}`, body)).toContain(`element 0: expected ${expected}`);
    }
    expect(await fixture.refused('id_fp32', bare('1', ',"parameters":{"own":NaN}'))).toContain('parameter own');
    expect(await fixture.refused('id_fp32', bare('1', ',"id":NaN'))).toContain('id must be a string');
    expect(await fixture.refused('id_fp32', '{"inputs":[{"name":"x","shape":[1,Infinity],"data":[1]}]}')).toBeTruthy();
  });

  test('keeps integers exact beside bare words', async () => {
    const body = bare('NaN', ',"parameters":{"big":9007199254740993}');
    expect((await postInfer(fixture.app, 'id_fp32', body)).statusCode).toBe(200);
    expect(fixture.dispatcher.seen.at(-1)?.request.parameters).toEqual({ big: 9007199254740993n });
  });

  test('refuses what is no float, with the element or its place (A13)', async () => {
    for (const literal of ['null', '1e400', '"1"', 'true', '1e39']) {
      expect(await fixture.refused('id_fp32', bare(`0,${literal}`))).toContain('input x: element 1: expected a number');
    }
    for (const literal of ['null', '"1"', 'true', '1e39']) {
      expect(await fixture.refused('id_fp32', bare(`NaN,${literal}`))).toContain(
        'input x: element 1: expected a number',
      );
    }
    expect(await fixture.refused('id_fp32', bare('NaN,1e400'))).toContain('beyond the range of a double at character');
    expect(await fixture.refused('id_fp32', bare('NaN,nan'))).toContain('cannot be parsed at character');
  });

  test('never wraps around or converts by guessing (A15)', async () => {
    const cases: [Datatype, unknown][] = [
      ['UINT8', 256],
      ['UINT8', -1],
      ['UINT8', 1.5],
      ['UINT8', '1'],
      ['INT8', 128],
      ['INT16', 40000],
      ['INT32', 2 ** 31],
      ['UINT32', 2 ** 32],
      ['INT64', 9223372036854775808n],
      ['INT64', 1e300],
      ['INT64', true],
      ['UINT64', 18446744073709551616n],
      ['UINT64', -1],
      ['BOOL', 2],
      ['BOOL', 1],
      ['BOOL', 'true'],
      ['BYTES', 1],
      ['BYTES', { b64: 'AA==' }],
      ['BYTES', '\ud800'],
      ['FP32', true],
    ];
    for (const [datatype, value] of cases) {
      const body = { inputs: [jsonInput('x', datatype, [1, 1], [value])] };
      expect(await fixture.refused(`id_${datatype.toLowerCase()}`, body)).toContain('input x: element 0:');
    }
    const good = await postInfer(fixture.app, 'id_bool', { inputs: [jsonInput('x', 'BOOL', [1, 1], [true])] });
    expect(good.statusCode).toBe(200);
  });

  test('keeps the sign of zero', async () => {
    const response = await postInfer(
      fixture.app,
      'id_fp32',
      '{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[-0.0]}]}',
    );
    expect(response.payload).toContain('"data":[-0.0]');
  });

  test('refuses BYTES that are not text when JSON is asked for, and gives them as binary', async () => {
    const raw = Buffer.from([2, 0, 0, 0, 0xff, 0xfe]);
    const inputs = [binaryInput('x', 'BYTES', [1, 1], 6)];
    expect(await fixture.refused('id_bytes', { inputs }, { binary: raw })).toContain('binary_data: true');
    const response = await postInfer(
      fixture.app,
      'id_bytes',
      { inputs, parameters: { binary_data_output: true } },
      { binary: raw },
    );
    expect(splitAnswer(response).tail).toEqual(raw);
  });

  test('limits nesting', async () => {
    for (const depth of [500, 100_000]) {
      const data = `${'['.repeat(depth)}1${']'.repeat(depth)}`;
      const body = `{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":${data}}]}`;
      expect(await fixture.refused('id_fp32', body)).toContain('nested deeper');
    }
  });
});

describe('shapes', () => {
  test('carries tensors without elements (A16)', async () => {
    const cases: [string, Datatype, number[]][] = [
      ['id_nobatch', 'FP32', [0, 3]],
      ['id_nobatch', 'FP32', [2, 0]],
      ['id_nobatch_bytes', 'BYTES', [0]],
      ['id_fp32', 'FP32', [2, 0]],
    ];
    for (const [model, datatype, shape] of cases) {
      const json = await postInfer(fixture.app, model, { inputs: [jsonInput('x', datatype, shape, [])] });
      expect(json.statusCode, json.payload).toBe(200);
      expect(json.json<InferAnswer>().outputs).toEqual([{ name: 'y', datatype, shape, data: [] }]);
      const body = { inputs: [binaryInput('x', datatype, shape, 0)], parameters: { binary_data_output: true } };
      const binary = await postInfer(fixture.app, model, body);
      expect(binary.statusCode, binary.payload).toBe(200);
      expect(binary.headers['inference-header-content-length']).toBeUndefined();
      expect(binary.headers['content-type']).toBe('application/json');
      expect(binary.json<InferAnswer>().outputs).toEqual([
        { name: 'y', datatype, shape, parameters: { binary_data_size: 0 } },
      ]);
    }
  });

  test('refuses absurd shapes at once (A18)', async () => {
    const shapes = [
      '[-1,4]',
      '[1.5]',
      '[1e18,1e18]',
      '[2147483648,2147483648]',
      '[4,4611686018427387904]',
      '[1,9223372036854775807]',
      '["2",2]',
      '[null]',
      '[[1]]',
      `[${'1,'.repeat(64)}1]`,
    ];
    for (const shape of shapes) {
      const inputs = `[{"name":"x","shape":${shape},"datatype":"FP32","data":[1]}]`;
      expect(await fixture.refused('id_nobatch', `{"inputs":${inputs}}`)).toMatch(/input x: shape/);
    }
    expect(await fixture.refused('id_nobatch', { inputs: [jsonInput('x', 'FP32', [], [1])] })).toContain(
      'expected shape [-1,-1]',
    );
    expect(await fixture.refused('id_nobatch', { inputs: [jsonInput('x', 'FP32', [1, 1e12], [1])] })).toContain(
      '1000000000000 elements expected, 1 given',
    );
  });

  test('answers scalars with shape [] and one number (A19)', async () => {
    const four = Buffer.from(new Float32Array([7]).buffer);
    fixture.dispatcher.answers.set('scalar', () => [{ name: 'y', datatype: 'FP32', shape: [], data: four }]);
    const inputs = [jsonInput('x', 'FP32', [1, 1], [7])];
    const json = await postInfer(fixture.app, 'scalar', { inputs });
    expect(json.json<InferAnswer>().outputs).toEqual([{ name: 'y', datatype: 'FP32', shape: [], data: [7] }]);
    const binary = splitAnswer(
      await postInfer(fixture.app, 'scalar', { inputs, parameters: { binary_data_output: true } }),
    );
    expect(binary.tail).toEqual(four);
    expect(binary.head.outputs[0]?.shape).toEqual([]);
  });
});
