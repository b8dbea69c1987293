import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { serveExamples, type Examples } from './kit.ts';

let examples: Examples;
beforeAll(async () => {
  examples = await serveExamples();
});
afterAll(() => examples.close());

interface Embeddings {
  readonly object: string;
  readonly model: string;
  readonly data: readonly { readonly object: string; readonly index: number; readonly embedding: number[] | string }[];
  readonly usage: { readonly prompt_tokens: number; readonly total_tokens: number };
}

function embed(body: object | string) {
  const headers = { 'content-type': 'application/json', authorization: 'Bearer anything' };
  return examples.app.inject({ method: 'POST', url: '/v1/embeddings', payload: body, headers });
}

describe('POST /v1/embeddings', () => {
  test('answers a text and a list of texts', async () => {
    const one = (await embed({ model: 'minilm', input: 'hello world' })).json<Embeddings>();
    expect(one).toMatchObject({
      object: 'list',
      model: 'minilm',
      data: [{ object: 'embedding', index: 0 }],
      usage: { prompt_tokens: 4, total_tokens: 4 },
    });
    expect(one.data[0]!.embedding).toHaveLength(384);
    const two = (
      await embed({ model: 'minilm', input: ['hello world', 'hello'], user: 'u', dimensions: 384 })
    ).json<Embeddings>();
    expect(two.data.map(({ index }) => index)).toEqual([0, 1]);
    expect(two.usage.total_tokens).toBe(7);
  });

  test('base64 holds the same numbers as little-endian float32', async () => {
    const floats = (await embed({ model: 'minilm', input: 'hi', encoding_format: 'float' })).json<Embeddings>();
    const base64 = (
      await embed({ model: 'minilm', input: 'hi', encoding_format: 'base64', user: null })
    ).json<Embeddings>();
    const bytes = Buffer.from(base64.data[0]!.embedding as string, 'base64');
    const decoded = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
    expect(decoded).toEqual(floats.data[0]!.embedding);
  });

  test.each([
    [{ model: 'minilm' }, 'input', '"input" must be a text or a list of 1 to 2048 texts'],
    [{ input: 'a' }, 'model', '"model" must be the name of a model'],
    [{ model: 'minilm', input: '' }, 'input', 'none of them empty'],
    [{ model: 'minilm', input: [] }, 'input', '"input" must be'],
    [{ model: 'minilm', input: ['a', ''] }, 'input', '"input" must be'],
    [{ model: 'minilm', input: [1, 2, 3] }, 'input', 'holds token numbers'],
    [{ model: 'minilm', input: [[1, 2], [3]] }, 'input', 'holds token numbers'],
    [{ model: 'minilm', input: 'a', encoding_format: 'int8' }, 'encoding_format', 'must be "float" or "base64"'],
    [{ model: 'minilm', input: 'a', dimensions: 0 }, 'dimensions', 'must be a whole number above 0'],
    [{ model: 'minilm', input: 'a', dimensions: 128 }, 'dimensions', 'gives 384 dimensions, not 128'],
    [{ model: 'magika', input: 'a' }, 'model', 'does file-type and gives no embeddings of texts'],
    [{ model: 'digits_mlp', input: 'a' }, null, 'has no files that describe its input'],
  ])('400 for %j', async (body, param, message) => {
    const response = await embed(body);
    expect(response.statusCode).toBe(400);
    expect(response.json()).toEqual({
      error: { message: expect.stringContaining(message) as string, type: 'invalid_request_error', param, code: null },
    });
    expect(response.headers['x-request-id']).toBeTruthy();
  });

  test('an unknown model is 404 and a body that is no JSON is 400', async () => {
    const unknown = await embed({ model: 'nope', input: 'a' });
    expect([unknown.statusCode, unknown.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }]);
    for (const body of ['{', '[]', '']) {
      const response = await embed(body);
      expect([response.statusCode, response.json()]).toMatchObject([400, { error: { type: 'invalid_request_error' } }]);
    }
  });

  test('a body beyond the limit is refused in the same form', async () => {
    const response = await embed(`{"model":"minilm","input":"${'a'.repeat(16 * 1024 * 1024)}"}`);
    expect([response.statusCode, response.json()]).toMatchObject([413, { error: { type: 'invalid_request_error' } }]);
  });
});

describe('GET /v1/models', () => {
  test('lists the models that give embeddings, each once', async () => {
    const list = (await examples.app.inject('/v1/models')).json<{ object: string; data: { id: string }[] }>();
    expect(list.object).toBe('list');
    expect(list.data.map(({ id }) => id)).toEqual(['minilm']);
    expect(list.data[0]).toEqual({
      id: 'minilm',
      object: 'model',
      created: expect.any(Number) as number,
      owned_by: 'millrace',
    });
  });

  test('describes one', async () => {
    expect((await examples.app.inject('/v1/models/minilm')).json()).toMatchObject({ id: 'minilm', object: 'model' });
    for (const name of ['nope', 'digits_mlp']) {
      const unknown = await examples.app.inject(`/v1/models/${name}`);
      expect([unknown.statusCode, unknown.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }]);
    }
  });
});
