import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { InferenceClient } from '@huggingface/inference';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';

const example = (name: string) => readFileSync(join(ROOT, 'examples', name));
const photo = (name: string) => new Blob([new Uint8Array(example(`photos/${name}`))], { type: 'image/png' });

describe('the example models in a process of their own', () => {
  let serve: MillraceProcess;

  beforeAll(async () => {
    serve = await startMillrace(['serve', '--model-repository=examples/models', '--log-info=false']);
  });
  afterAll(() => serve.stop());

  test('photos, texts and files side by side through the official clients', async () => {
    const images = new InferenceClient(undefined, { endpointUrl: `${serve.url}/models/efficientnet_lite0_int8` });
    const texts = new InferenceClient(undefined, { endpointUrl: `${serve.url}/models/minilm` });
    const openai = new OpenAI({ baseURL: `${serve.url}/v1`, apiKey: 'x', maxRetries: 0 });
    const file = fetch(`${serve.url}/models/magika`, {
      method: 'POST',
      body: new Uint8Array(example('files/count.py')),
    });
    const [coffee, camera, vector, embedding, type] = await Promise.all([
      images.imageClassification({ data: photo('coffee.png') }),
      images.imageClassification({ data: photo('camera.png') }),
      texts.featureExtraction({ inputs: 'a hot drink' }),
      openai.embeddings.create({ model: 'minilm', input: 'a hot drink' }),
      file.then((response) => response.json() as Promise<{ label: string }[]>),
    ]);
    expect([coffee[0]!.label, camera[0]!.label, type[0]!.label]).toEqual(['espresso', 'tripod', 'python']);
    expect(embedding.data[0]!.embedding[0]).toBeCloseTo((vector as number[])[0]!, 5);
  });

  test('the digit of examples/requests is a 3', async () => {
    const body = new Uint8Array(example('requests/digit.json'));
    const response = await fetch(`${serve.url}/v2/models/digits_mlp/infer`, { method: 'POST', body });
    const { outputs } = (await response.json()) as { outputs: { name: string; data: number[] }[] };
    expect(outputs.find(({ name }) => name === 'label')!.data).toEqual([3]);
  });

  test('ends with code 0 in the middle of a crowd of photos, and answers those that it took', async () => {
    const body = new Uint8Array(example('photos/retina.jpg'));
    const url = `${serve.url}/models/efficientnet_lite0_int8`;
    const post = () => fetch(url, { method: 'POST', body }).then((response) => response.status);
    await post();
    const crowd = Array.from({ length: 30 }, () => post().catch(() => 'refused'));
    await Promise.any(crowd);
    expect(await serve.stop('SIGTERM')).toBe(0);
    for (const outcome of await Promise.all(crowd)) expect([200, 503, 'refused']).toContain(outcome);
  });
});
