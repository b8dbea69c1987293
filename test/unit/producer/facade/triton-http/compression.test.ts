import { deflateRawSync, deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { binaryInput, errorText, type InferAnswer, jsonInput, postInfer } from '../../../../support/http-app.ts';
import { useInferFixture } from './infer-fixture.ts';

const fixture = useInferFixture();

const inputs = [jsonInput('x', 'FP32', [1, 2], [1, 2.5])];
const json = Buffer.from(JSON.stringify({ inputs }));
const FORMS = [
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['GZip', gzipSync],
  // Under each other's name, as some clients send them.
  ['gzip', deflateSync],
  ['deflate', gzipSync],
] as const;

function encoded(encoding: string, more: Record<string, string> = {}) {
  return { headers: { 'content-encoding': encoding, ...more } };
}

describe('a compressed request', () => {
  test.each(FORMS)('under %s is read as the plain one (A22)', async (encoding, pack) => {
    const response = await postInfer(fixture.app, 'id_fp32', pack(json), encoded(encoding));
    expect(response.json<InferAnswer>().outputs[0]?.data).toEqual([1, 2.5]);
  });

  test('has its JSON counted before compression', async () => {
    const head = Buffer.from(JSON.stringify({ inputs: [binaryInput('x', 'FP32', [1, 2], 8)] }));
    const tail = Buffer.from(new Float32Array([3, 4]).buffer);
    const body = gzipSync(Buffer.concat([head, tail]));
    const headers = { 'inference-header-content-length': String(head.length) };
    const response = await postInfer(fixture.app, 'id_fp32', body, encoded('gzip', headers));
    expect(response.json<InferAnswer>().outputs[0]?.data).toEqual([3, 4]);
  });

  test('under identity, or under nothing at all, is plain', async () => {
    for (const encoding of ['identity', 'Identity', '']) {
      expect((await postInfer(fixture.app, 'id_fp32', json, encoded(encoding))).statusCode).toBe(200);
    }
  });

  test.each(['br', 'zstd', 'x-own', 'gzip, gzip'])('under %s is 501, with what is understood', async (encoding) => {
    const response = await postInfer(fixture.app, 'id_fp32', { inputs }, encoded(encoding));
    expect(response.statusCode).toBe(501);
    expect(errorText(response)).toContain(encoding);
    expect(response.headers['accept-encoding']).toBe('gzip, deflate');
  });

  test.each(['gzip', 'deflate'])('that is no %s is 400 (A22)', async (encoding) => {
    const text = await fixture.refused('id_fp32', json, encoded(encoding));
    expect(text).toMatch(new RegExp(`${encoding} data \\(content-encoding: ${encoding}\\)`));
    const broken = gzipSync(Buffer.alloc(10_000, 'abcdefg'));
    broken.fill(0xff, 12, 20);
    expect(await fixture.refused('id_fp32', broken, encoded(encoding))).toContain('is not valid');
  });

  test.each(FORMS)('under %s that ends too early is 400', async (encoding, pack) => {
    const packed = pack(json);
    for (const length of [1, Math.floor(packed.length / 2), packed.length - 1]) {
      const text = await fixture.refused('id_fp32', packed.subarray(0, length), encoded(encoding));
      expect(text).toContain(`ends in the middle of its ${encoding.toLowerCase()} data`);
    }
  });

  test('that grows beyond the limits is 413: JSON alone, and all of it (A22)', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000, ' '));
    expect(bomb.length).toBeLessThan(100_000);
    expect(await fixture.refused('id_fp32', bomb, encoded('gzip'), 413)).toContain('1000000 bytes');
    const headers = { 'inference-header-content-length': '2' };
    expect(await fixture.refused('id_fp32', bomb, encoded('gzip', headers), 413)).toContain('2000000 bytes');
  });

  test('that is long and becomes nothing is 413 too', async () => {
    // An empty stored block, again and again.
    const nothing = Buffer.concat([Buffer.of(0x78, 0x01), Buffer.alloc(1_000_100, Buffer.of(0, 0, 0, 0xff, 0xff))]);
    expect(await fixture.refused('id_fp32', nothing, encoded('deflate'), 413)).toContain('1000000 bytes');
  });

  test('is read on infer alone', async () => {
    const response = await fixture.app.inject({
      method: 'POST',
      url: '/v2/repository/index',
      payload: gzipSync('{}'),
      headers: { 'content-encoding': 'gzip' },
    });
    expect(response.statusCode).toBe(400);
  });
});

describe('an answer', () => {
  const UNPACK = { gzip: gunzipSync, deflate: inflateSync };

  test.each(['gzip', 'deflate'] as const)('comes as %s when the client asks for it', async (coding) => {
    const plain = await postInfer(fixture.app, 'id_fp32', { inputs });
    expect(plain.headers['content-encoding']).toBeUndefined();
    const response = await postInfer(fixture.app, 'id_fp32', { inputs }, { headers: { 'accept-encoding': coding } });
    expect(response.headers['content-encoding']).toBe(coding);
    expect(response.headers['content-length']).toBe(String(response.rawPayload.length));
    expect(UNPACK[coding](response.rawPayload)).toEqual(plain.rawPayload);
  });

  test('keeps the length of its JSON before compression', async () => {
    const body = { inputs, parameters: { binary_data_output: true } };
    const response = await postInfer(fixture.app, 'id_fp32', body, { headers: { 'accept-encoding': 'gzip' } });
    const payload = gunzipSync(response.rawPayload);
    const length = Number(response.headers['inference-header-content-length']);
    expect(JSON.parse(payload.toString('utf8', 0, length))).toMatchObject({ model_name: 'id_fp32' });
    expect(payload.subarray(length)).toEqual(Buffer.from(new Float32Array([1, 2.5]).buffer));
  });

  test('is whole when it is large', async () => {
    const values = Buffer.from(new Float32Array(300_000).map((_, i) => i / 7).buffer);
    const body = {
      inputs: [binaryInput('x', 'FP32', [1, 300_000], values.length)],
      parameters: { binary_data_output: true },
    };
    const options = { binary: values, headers: { 'accept-encoding': 'gzip' } };
    const response = await postInfer(fixture.app, 'id_fp32', body, options);
    const payload = gunzipSync(response.rawPayload);
    expect(payload.subarray(payload.length - values.length).equals(values)).toBe(true);
  });

  test.each(['br', 'identity', 'gzip;q=0'])('stays plain for %s', async (wish) => {
    const response = await postInfer(fixture.app, 'id_fp32', { inputs }, { headers: { 'accept-encoding': wish } });
    expect(response.headers['content-encoding']).toBeUndefined();
    expect(response.json<InferAnswer>().outputs).toHaveLength(1);
  });

  test('stays plain when it is an error, or not of infer', async () => {
    const headers = { 'accept-encoding': 'gzip, deflate' };
    for (const response of [
      await postInfer(fixture.app, 'id_fp32', '{', { headers }),
      await postInfer(fixture.app, 'no_such_model', { inputs }, { headers }),
      await fixture.app.inject({ url: '/v2/models/id_fp32', headers }),
      await fixture.app.inject({ url: '/v2/models/id_fp32/config', headers }),
      await fixture.app.inject({ method: 'POST', url: '/v2/repository/index', payload: '{}', headers }),
    ]) {
      expect(response.headers['content-encoding']).toBeUndefined();
      expect(response.json()).toBeTruthy();
    }
  });
});
