import { InferenceClient } from '@huggingface/inference';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exampleFile, serveExamples, type Examples } from './kit.ts';

let examples: Examples;
let url: string;
beforeAll(async () => {
  examples = await serveExamples();
  url = await examples.listen();
});
afterAll(() => examples.close());

describe('@huggingface/inference, pointed at a model', () => {
  test('classifies a photo', async () => {
    const client = new InferenceClient(undefined, { endpointUrl: `${url}/models/efficientnet_lite0_int8` });
    const data = new Blob([new Uint8Array(exampleFile('photos/coffee.png'))], { type: 'image/png' });
    const [best] = await client.imageClassification({ data });
    expect(best).toEqual({ label: 'espresso', score: expect.closeTo(0.95, 1) as number });
  });

  test('classifies a photo at an endpoint', async () => {
    const client = new InferenceClient().endpoint(`${url}/models/efficientnet_lite0_int8`);
    const inputs = new Blob([new Uint8Array(exampleFile('photos/camera.png'))]);
    expect((await client.imageClassification({ inputs }))[0]!.label).toBe('tripod');
  });

  test('embeds a text and texts', async () => {
    const client = new InferenceClient('hf_token', { endpointUrl: `${url}/models/minilm` });
    const one = await client.featureExtraction({ inputs: 'hello' });
    expect(one).toHaveLength(384);
    const two = await client.featureExtraction({ inputs: ['hello', 'world'] });
    expect(two.map((vector) => (vector as number[]).length)).toEqual([384, 384]);
  });

  test('shows our errors', async () => {
    const client = new InferenceClient(undefined, { endpointUrl: `${url}/models/nope` });
    await expect(client.featureExtraction({ inputs: 'hello' })).rejects.toThrow(/nope/);
  });
});

describe('openai, with another base URL', () => {
  const client = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'x', maxRetries: 0 });

  test('embeds texts, in the base64 that it asks for by itself and in floats', async () => {
    const { data, usage } = await client().embeddings.create({ model: 'minilm', input: ['hello', 'world'] });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([384, 384]);
    expect(usage.total_tokens).toBe(6);
    const floats = await client().embeddings.create({ model: 'minilm', input: 'hello', encoding_format: 'float' });
    floats.data[0]!.embedding.forEach((value, i) => expect(value).toBeCloseTo(data[0]!.embedding[i]!, 5));
  });

  test('lists and finds models', async () => {
    const ids = [];
    for await (const model of client().models.list()) ids.push(model.id);
    expect(ids).toContain('minilm');
    expect((await client().models.retrieve('minilm')).owned_by).toBe('millrace');
  });

  test('turns our errors into its own', async () => {
    const unknown = client().embeddings.create({ model: 'nope', input: 'a' });
    await expect(unknown).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
    const tokens = client().embeddings.create({ model: 'minilm', input: [1, 2] });
    await expect(tokens).rejects.toMatchObject({ status: 400, param: 'input' });
  });
});
