import { describe, expect, test } from 'vitest';
import { binaryInput, jsonInput, postInfer, splitAnswer } from '../../../../support/http-app.ts';
import { bytesOf, useInferFixture } from './infer-fixture.ts';

const fixture = useInferFixture();

describe('binary data', () => {
  const sixteen = Buffer.from(new Float32Array([1, 2, 3, 4]).buffer);

  test('comes and goes in the order of the tensors', async () => {
    const ints = Buffer.from(new Int32Array([-1, 7]).buffer);
    const inputs = [binaryInput('b', 'INT32', [1, 2], 8), binaryInput('a', 'FP32', [1, 4], 16)];
    const outputs = [{ name: 'second' }, { name: 'sum', parameters: { binary_data: true } }];
    fixture.dispatcher.answers.set('two_in', ({ inputs: [b, a] }) => [
      { ...a!, name: 'sum' },
      { ...b!, name: 'second' },
    ]);
    const response = await postInfer(
      fixture.app,
      'two_in',
      { inputs, outputs },
      { binary: Buffer.concat([ints, sixteen]) },
    );
    expect(response.statusCode, response.payload).toBe(200);
    expect(response.headers['content-type']).toBe('application/octet-stream');
    const { head, tail } = splitAnswer(response);
    expect(head.outputs).toEqual([
      { name: 'sum', datatype: 'FP32', shape: [1, 4], parameters: { binary_data_size: 16 } },
      { name: 'second', datatype: 'INT32', shape: [1, 2], data: [-1, 7] },
    ]);
    expect(tail).toEqual(sixteen);
  });

  test('mixes with JSON inputs, which take no part in the byte section', async () => {
    const inputs = [jsonInput('b', 'INT32', [1, 2], [5, 6]), binaryInput('a', 'FP32', [1, 4], 16)];
    const response = await postInfer(fixture.app, 'two_in', { inputs }, { binary: sixteen });
    expect(response.statusCode, response.payload).toBe(200);
    expect(fixture.dispatcher.seen[0]?.request.inputs.map(({ name, data }) => [name, data.byteLength])).toEqual([
      ['b', 8],
      ['a', 16],
    ]);
  });

  test('is a view of the body, not a copy', async () => {
    await postInfer(fixture.app, 'id_fp32', { inputs: [binaryInput('x', 'FP32', [1, 4], 16)] }, { binary: sixteen });
    const data = fixture.dispatcher.seen[0]?.request.inputs[0]?.data;
    expect(data?.buffer.byteLength).toBeGreaterThan(16);
  });

  test.each([
    ['announces too few bytes', 12, 12, 'input x: expected 16 bytes, got 12'],
    ['announces too few of the bytes sent', 12, 16, 'input x: expected 16 bytes, got 12'],
    ['sends too few bytes', 16, 12, 'input x: expected 16 bytes, got 12'],
    ['announces too many bytes', 20, 20, 'input x: expected 16 bytes, got 20'],
    ['sends too many bytes', 16, 20, 'unexpected additional input data: 4 bytes'],
    ['writes the size as text', '16', 16, 'input x: binary_data_size must be a whole number'],
    ['writes a negative size', -16, 16, 'input x: binary_data_size must be a whole number'],
    ['writes a fraction', 15.5, 16, 'input x: binary_data_size must be a whole number'],
    ['writes null', null, 16, 'input x: binary_data_size must be a whole number'],
  ])('is refused when the client %s (A06)', async (_what, announced, sent, expected) => {
    const body = { inputs: [binaryInput('x', 'FP32', [1, 4], announced)] };
    expect(await fixture.refused('id_fp32', body, { binary: Buffer.alloc(sent) })).toContain(expected);
  });

  test('is refused when two inputs have their blobs swapped in size (A06)', async () => {
    const inputs = [binaryInput('a', 'FP32', [1, 4], 8), binaryInput('b', 'INT32', [1, 2], 16)];
    expect(await fixture.refused('two_in', { inputs }, { binary: Buffer.alloc(24) })).toContain(
      'input a: expected 16 bytes, got 8',
    );
  });

  test('refuses a batch that announces more rows than it brings (C16)', async () => {
    const body = { inputs: [binaryInput('x', 'FP32', [8, 4], 48)] };
    expect(await fixture.refused('id_fp32', body, { binary: Buffer.alloc(48) })).toContain(
      'expected 128 bytes, got 48',
    );
  });

  test('explains the layout of BYTES with element and offset (A07)', async () => {
    const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.alloc(100)]);
    const cases: [number[], Buffer, string][] = [
      [[1, 1], jpeg, 'element 0 at byte 0: its length says 3774863615 bytes, but 100 follow'],
      [
        [1, 2],
        Buffer.concat([bytesOf(['ab']), Buffer.from([9, 0, 0, 0, 1])]),
        'element 1 at byte 6: its length says 9',
      ],
      [[1, 2], bytesOf(['ab']), '2 elements expected, 1 given'],
      [[1, 1], Buffer.concat([bytesOf(['ab']), Buffer.from([0])]), '1 bytes left over after 1 elements'],
      [[1, 1], Buffer.from('abc'), 'element 0 at byte 0: 3 bytes left, 4 needed'],
      [[1, 1], Buffer.alloc(0), '1 elements expected, 0 given'],
    ];
    for (const [shape, raw, expected] of cases) {
      const body = { inputs: [binaryInput('x', 'BYTES', shape, raw.length)] };
      const text = await fixture.refused('id_bytes', body, { binary: raw });
      expect(text).toContain(expected);
      expect(text).toContain('little-endian');
    }
    expect(
      await fixture.refused(
        'id_bytes',
        { inputs: [binaryInput('x', 'BYTES', [1, 1], 50)] },
        { binary: bytesOf(['ab']) },
      ),
    ).toContain('input x: expected 50 bytes (binary_data_size), got 6');
  });

  test('accepts and echoes elements of length zero (A07)', async () => {
    const raw = bytesOf(['', 'a', '']);
    const body = { inputs: [binaryInput('x', 'BYTES', [1, 3], raw.length)], parameters: { binary_data_output: true } };
    expect(splitAnswer(await postInfer(fixture.app, 'id_bytes', body, { binary: raw })).tail).toEqual(raw);
  });

  test.each(['abc', '1.5', '-1', '', '1e3', '100000', '99999999999999999999'])(
    'is refused with the header length %j, which is named',
    async (length) => {
      const body = { inputs: [jsonInput('x', 'FP32', [1, 1], [1])] };
      const headers = { 'inference-header-content-length': length };
      expect(await fixture.refused('id_fp32', body, { headers })).toContain('header Inference-Header-Content-Length');
    },
  );

  test('takes the header when it covers the whole body, and refuses one that cuts the JSON', async () => {
    const text = JSON.stringify({ inputs: [jsonInput('x', 'FP32', [1, 1], [1])] });
    const whole = { headers: { 'inference-header-content-length': String(text.length) } };
    expect((await postInfer(fixture.app, 'id_fp32', text, whole)).statusCode).toBe(200);
    const cut = { headers: { 'inference-header-content-length': '10' } };
    expect(await fixture.refused('id_fp32', text, cut)).toContain('cannot be parsed');
  });

  test('refuses data in two forms, and in none', async () => {
    const both = { ...jsonInput('x', 'FP32', [1, 1], [1]), parameters: { binary_data_size: 4 } };
    expect(await fixture.refused('id_fp32', { inputs: [both] }, { binary: Buffer.alloc(4) })).toContain('both');
    const none = { name: 'x', datatype: 'FP32', shape: [1, 1] };
    expect(await fixture.refused('id_fp32', { inputs: [none] })).toContain('neither data nor binary_data_size');
  });
});

describe('raw binary requests', () => {
  const raw = { 'inference-header-content-length': '0' };

  test('take batch size 1 and solve the one free dimension; the answer is binary', async () => {
    const body = Buffer.from(new Float32Array([1, 2, 3]).buffer);
    const response = await postInfer(fixture.app, 'id_fp32', body, { headers: raw });
    expect(response.statusCode, response.payload).toBe(200);
    const { head, tail } = splitAnswer(response);
    expect(head.outputs[0]?.shape).toEqual([1, 3]);
    expect(tail).toEqual(body);
  });

  test('put the length in front of a single BYTES element', async () => {
    const response = await postInfer(fixture.app, 'id_one_text', Buffer.from('hello'), { headers: raw });
    expect(splitAnswer(response).tail).toEqual(bytesOf(['hello']));
  });

  test('with BYTES are refused by a model that takes any number of elements', async () => {
    for (const model of ['id_bytes', 'id_nobatch_bytes']) {
      const text = await fixture.refused(model, Buffer.from('hello'), { headers: raw });
      expect(text).toContain('a raw binary request can hold one BYTES element only');
    }
  });

  test('are refused when the shape cannot be told', async () => {
    expect(await fixture.refused('two_in', Buffer.alloc(64), { headers: raw })).toContain(
      'a raw binary request needs a model',
    );
    expect(await fixture.refused('id_fp32', Buffer.alloc(5), { headers: raw })).toContain('multiple of 4 bytes');
    expect(await fixture.refused('id_nobatch', Buffer.alloc(8), { headers: raw })).toContain('cannot be told');
  });
});
