import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LabelScore } from '../../../producer/tasks/scores.ts';
import { exampleFile, serveExamples, type Examples } from './kit.ts';

let examples: Examples;
beforeAll(async () => {
  examples = await serveExamples();
});
afterAll(() => examples.close());

const IMAGE = '/models/efficientnet_lite0_int8';
const TEXT = '/models/minilm';
const coffee = exampleFile('photos/coffee.png');

function post(url: string, payload: Buffer | string | object, headers: Record<string, string> = {}) {
  return examples.app.inject({ method: 'POST', url, payload, headers });
}

describe('a photo', () => {
  test('comes as bare bytes under any content type, or none', async () => {
    for (const headers of [
      {},
      { 'content-type': 'image/png' },
      { 'content-type': 'application/x-www-form-urlencoded' },
    ]) {
      const response = await post(IMAGE, coffee, headers);
      expect(response.statusCode).toBe(200);
      expect(response.headers['content-type']).toBe('application/json');
      const answer = response.json<LabelScore[]>();
      expect(answer).toHaveLength(5);
      expect(answer[0]!.label).toBe('espresso');
      expect(answer.map(({ score }) => score)).toEqual(answer.map(({ score }) => score).sort((a, b) => b - a));
    }
  });

  test('comes as base64 in JSON, with parameters', async () => {
    for (const inputs of [coffee.toString('base64'), `data:image/png;base64,${coffee.toString('base64')}`]) {
      const answer = (await post(IMAGE, { inputs, parameters: { top_k: 2, function_to_apply: null } })).json<
        LabelScore[]
      >();
      expect(answer.map(({ label }) => label)).toEqual(['espresso', 'cup']);
    }
    const logits = await post(IMAGE, {
      inputs: coffee.toString('base64'),
      parameters: { top_k: 1, function_to_apply: 'none' },
    });
    expect(logits.json<LabelScore[]>()[0]!.score).toBeGreaterThan(1);
  });

  test('the answer says where the time went, and which request it was', async () => {
    const { headers } = await post(IMAGE, coffee);
    expect(headers['server-timing']).toMatch(
      /^preprocess;dur=[\d.]+, queue;dur=[\d.]+, compute;dur=[\d.]+, total;dur=[\d.]+$/,
    );
    expect(headers['x-request-id']).toBeTruthy();
  });

  test.each([
    [415, '<svg xmlns="http://www.w3.org/2000/svg"/>', 'got SVG, which is not supported'],
    [415, '%PDF-1.4', 'got PDF'],
    [415, '<!doctype html><html></html>', 'got HTML'],
    [415, 'x', 'got an unknown format'],
    [415, '', 'the body is empty'],
    [400, '\xff\xd8\xff\xe0 not really', 'the JPEG picture cannot be decoded'],
    [400, '{"inputs": 5}', '"inputs" must be a picture in base64, got a number'],
    [400, '{"inputs": "http://example.com/a.png"}', 'pictures are not fetched'],
    [400, '{"inputs": "!!!"}', 'must be a picture in base64'],
    [400, '{"inputs": "aGVsbG8=", "parameters": {"top_k": 0}}', '"top_k" must be a whole number above 0'],
    [400, '{"inputs": "aGVsbG8=", "parameters": {"threshold": 1}}', 'parameter "threshold" is not supported'],
    [400, '{"inputs"', 'not valid JSON'],
    [400, '{"input": "x"}', 'parameter "input" is not supported'],
  ])('%d for %j', async (status, body, message) => {
    const response = await post(IMAGE, Buffer.from(body, 'latin1'));
    expect([response.statusCode, response.json<{ error: string }>().error]).toEqual([
      status,
      expect.stringContaining(message),
    ]);
    expect((await post(IMAGE, coffee)).statusCode).toBe(200);
  });

  test('twenty at once get the answers that they get alone', async () => {
    const names = ['coffee.png', 'camera.png', 'chelsea.png', 'rocket.jpg'];
    const alone = await Promise.all(
      names.map(async (name) => (await post(IMAGE, exampleFile(`photos/${name}`))).payload),
    );
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => post(IMAGE, exampleFile(`photos/${names[i % names.length]!}`))),
    );
    const top = (payload: string) => (JSON.parse(payload) as LabelScore[])[0]!;
    answers.forEach(({ payload }, i) => {
      const expected = top(alone[i % names.length]!);
      expect(top(payload).label).toBe(expected.label);
      expect(top(payload).score).toBeCloseTo(expected.score, 2);
    });
  });
});

describe('a text', () => {
  test('gives a flat list, a list of texts a list of lists', async () => {
    const one = (await post(TEXT, { inputs: 'hello' })).json<number[]>();
    expect(one).toHaveLength(384);
    const two = (await post(TEXT, { inputs: ['hello', 'a much longer text than that'] })).json<number[][]>();
    expect(two.map((vector) => vector.length)).toEqual([384, 384]);
    expect(two[0]![0]).toBeCloseTo(one[0]!, 5);
    expect((await post(TEXT, { inputs: ['hello'] })).json<number[][]>()).toHaveLength(1);
  });

  test('comes as plain text too, and as the JSON that curl calls a form', async () => {
    const json = (await post(TEXT, { inputs: 'hello' })).payload;
    expect((await post(TEXT, 'hello', { 'content-type': 'text/plain' })).payload).toBe(json);
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    expect((await post(TEXT, '{"inputs": "hello"}', form)).payload).toBe(json);
  });

  test('more texts than the model takes at once are answered in order', async () => {
    const texts = Array.from({ length: 70 }, (_, i) => `number ${i}`);
    const vectors = (await post(TEXT, { inputs: texts, parameters: { normalize: true, truncate: true } })).json<
      number[][]
    >();
    expect(vectors).toHaveLength(70);
    const last = (await post(TEXT, { inputs: 'number 69' })).json<number[]>();
    vectors[69]!.forEach((value, i) => expect(Math.abs(value - last[i]!)).toBeLessThan(1e-5));
  });

  test('answers the path that clients use for the Hub', async () => {
    expect((await post(`${TEXT}/pipeline/feature-extraction`, { inputs: 'hello' })).statusCode).toBe(200);
    const wrong = await post(`${TEXT}/pipeline/text-classification`, { inputs: 'hello' });
    expect([wrong.statusCode, wrong.json<{ error: string }>().error]).toEqual([
      400,
      'model "minilm" does feature-extraction, not "text-classification"',
    ]);
  });

  test('takes parameters beside the inputs, where the Python client puts them', async () => {
    const plain = (await post(TEXT, { inputs: 'hello' })).json<number[]>();
    const response = await post(TEXT, {
      inputs: 'hello',
      normalize: true,
      truncate: true,
      prompt_name: null,
      options: {},
    });
    response.json<number[]>().forEach((value, i) => expect(value).toBeCloseTo(plain[i]!, 5));
  });

  test.each([
    ['', 'the body is empty'],
    ['{"inputs": []}', 'got an empty list'],
    ['{"inputs": {"text": "a"}}', 'got an object'],
    ['{"inputs": ["a", 1]}', '"inputs"[1] must be a text, got a number'],
    ['{"inputs": null}', 'got null'],
    ['[]', 'the body must be a JSON object'],
    ['{"inputs": "a", "parameters": {"truncate": false}}', 'parameter "truncate" must be true, got false'],
    [JSON.stringify({ inputs: new Array<string>(2049).fill('a') }), 'at most 2048 allowed'],
    [JSON.stringify({ inputs: 'a'.repeat(1024 * 1024 + 1) }), 'at most 1048576 allowed'],
  ])('400 for %j', async (body, message) => {
    const response = await post(TEXT, Buffer.from(body), { 'content-type': 'application/json' });
    expect([response.statusCode, response.json<{ error: string }>().error]).toEqual([
      400,
      expect.stringContaining(message),
    ]);
  });

  test('a megabyte of words is cut to what the model takes', async () => {
    const response = await post(TEXT, { inputs: 'word '.repeat(200_000) });
    expect(response.statusCode).toBe(200);
  });
});

describe('a file', () => {
  test('is told by its bytes, JSON too', async () => {
    const json = await post('/models/magika', exampleFile('texts/sentences.json'), {
      'content-type': 'application/json',
    });
    expect(json.json<LabelScore[]>()[0]!.label).toBe('json');
    expect((await post('/models/magika', coffee)).json<LabelScore[]>()[0]!.label).toBe('png');
  });

  test('that is too small for the model gets the answer of Magika itself', async () => {
    expect((await post('/models/magika', 'hello')).json()).toEqual([{ label: 'txt', score: 1 }]);
    expect((await post('/models/magika', '')).json()).toEqual([{ label: 'empty', score: 1 }]);
  });
});

describe('models', () => {
  test('say what they do', async () => {
    const info = async (name: string) => (await examples.app.inject(`/models/${name}`)).json<object>();
    expect(await info('minilm')).toEqual({ id: 'minilm', pipeline_tag: 'feature-extraction', version: '1' });
    expect(await info('efficientnet_lite0_int8')).toMatchObject({ pipeline_tag: 'image-classification' });
    expect(await info('magika')).toMatchObject({ pipeline_tag: 'file-type' });
    expect(await info('digits_mlp')).toMatchObject({ pipeline_tag: null });
  });

  test('that take tensors only say where to send them', async () => {
    const response = await post('/models/digits_mlp', coffee);
    expect(response.statusCode).toBe(400);
    expect(response.json<{ error: string }>().error).toContain('send tensors to /v2/models/digits_mlp/infer');
  });

  test('that do not exist are 404, as are odd names', async () => {
    for (const name of ['nope', '..%2f..%2fetc', 'constructor', '__proto__']) {
      const response = await post(`/models/${name}`, coffee);
      expect([name, response.statusCode]).toEqual([name, 404]);
      expect(Object.keys(response.json<object>())).toEqual(['error']);
    }
  });
});

test('bodies that are too large or compressed are refused', async () => {
  const large = await post(IMAGE, Buffer.alloc(48 * 1024 * 1024 + 1));
  expect(large.statusCode).toBe(413);
  const zipped = await post(IMAGE, coffee, { 'content-encoding': 'gzip' });
  expect(zipped.statusCode).toBe(415);
});
