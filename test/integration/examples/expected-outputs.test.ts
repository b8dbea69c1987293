import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LabelScore } from '../../../producer/tasks/scores.ts';
import { Call } from '../../../shared/infer/call.ts';
import { exampleFile, serveExamples, sharedModelFile, sharedModelJson, type Examples } from './kit.ts';

let examples: Examples;
beforeAll(async () => {
  examples = await serveExamples();
});
afterAll(() => examples.close());

async function post<T>(url: string, payload: Buffer | object): Promise<T> {
  const response = await examples.app.inject({ method: 'POST', url, payload });
  expect(response.statusCode, response.payload).toBe(200);
  return response.json<T>();
}

interface Lite0 {
  readonly samples: readonly { readonly file: string; readonly crop_u8: { readonly sha256_of_hwc_bytes: string } }[];
}

interface Lite0Int8 {
  readonly tolerance: { readonly probability: number };
  readonly samples: readonly {
    readonly file: string;
    readonly fp32_top1: string;
    readonly fp32_top1_probability: number;
    readonly top5: readonly { readonly label: string; readonly probability: number }[];
  }[];
}

describe('efficientnet_lite0_int8', () => {
  const photos = (sharedModelJson('efficientnet_lite0/expected.json') as Lite0).samples;
  const { samples, tolerance } = sharedModelJson('efficientnet_lite0_int8/expected.json') as Lite0Int8;

  test.each(photos)("$file becomes Pillow's bytes", async ({ file, crop_u8 }) => {
    const model = examples.engine.catalog.resolve('efficientnet_lite0_int8', '');
    const photo = sharedModelFile(`efficientnet_lite0/${file}`);
    const tensor = await examples.preprocessor.image(model, photo, new Call('test', 0, Infinity));
    expect(tensor).toMatchObject({ name: 'pixel_values', datatype: 'FP32', shape: [1, 3, 224, 224] });
    expect(createHash('sha256').update(tensor.data).digest('hex')).toBe(crop_u8.sha256_of_hwc_bytes);
  });

  test.each(samples)('$file', async ({ file, top5, fp32_top1, fp32_top1_probability }) => {
    const photo = sharedModelFile(`efficientnet_lite0/${file.replace('../efficientnet_lite0/', '')}`);
    const url = '/models/efficientnet_lite0_int8';
    const answer = await post<LabelScore[]>(url, photo);
    expect(answer).toHaveLength(5);
    if (fp32_top1_probability > 0.5) expect(answer[0]!.label).toBe(fp32_top1);
    const base64 = { inputs: photo.toString('base64'), parameters: { top_k: 1000 } };
    const all = new Map((await post<LabelScore[]>(url, base64)).map(({ label, score }) => [label, score]));
    // "crane" is a bird and a machine.
    expect(all.size).toBe(999);
    for (const { label, probability } of top5) {
      expect(Math.abs(all.get(label)! - probability)).toBeLessThanOrEqual(tolerance.probability);
    }
  });
});

interface Minilm {
  readonly tolerance: Readonly<Record<string, number>>;
  readonly similarity_matrix_reference: readonly (readonly number[])[];
  /** `text` is null where samples/sentences.json has it alone. */
  readonly samples: readonly {
    readonly text: string | null;
    readonly input_ids: number[];
    readonly embedding: number[];
  }[];
}

describe('minilm', () => {
  const { tolerance, similarity_matrix_reference, ...expected } = sharedModelJson('minilm/expected.json') as Minilm;
  const texts = JSON.parse(exampleFile('texts/sentences.json').toString()) as string[];
  const samples = expected.samples.map((sample, index) => ({ ...sample, text: texts[index]! }));
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  const embed = (inputs: string | string[]) => post<number[]>('/models/minilm', { inputs });

  test.each(samples)('token ids of "$text"', async ({ text, input_ids }) => {
    const model = examples.engine.catalog.resolve('minilm', '');
    const { tensors, tokens } = await examples.preprocessor.texts(model, [text], new Call('test', 0, Infinity));
    const ids = [...new BigInt64Array(new Uint8Array(tensors[0]!.data).buffer)].map(Number);
    expect(ids).toEqual(input_ids);
    expect(tokens).toEqual([input_ids.length]);
  });

  test('vectors, alone and together', async () => {
    const together = (await embed(texts)) as unknown as number[][];
    expect(together).toHaveLength(samples.length);
    for (const [i, { text, embedding }] of samples.entries()) {
      const alone = await embed(text);
      expect(dot(alone, embedding)).toBeGreaterThanOrEqual(tolerance['cosine_to_reference_at_least']!);
      alone.forEach((value, k) =>
        expect(Math.abs(value - together[i]![k]!)).toBeLessThanOrEqual(tolerance['batched_against_alone_max_abs']!),
      );
      for (const [j, similarity] of similarity_matrix_reference[i]!.entries()) {
        const found = dot(together[i]!, together[j]!);
        expect(Math.abs(found - similarity)).toBeLessThanOrEqual(tolerance['pairwise_similarity_abs']!);
      }
    }
  });
});

interface Magika {
  readonly tolerance: { readonly probability_batch_1: number };
  readonly samples: readonly {
    readonly file: string;
    readonly api_label: string;
    readonly input_sum: number;
    readonly input_first_8: number[];
    readonly input_last_8: number[];
    readonly top3: readonly { readonly label: string; readonly probability: number }[];
  }[];
}

describe('magika', () => {
  /** The names that Magika's own API gives for some of the model's labels. */
  const renamed: Partial<Record<string, string>> = { randombytes: 'unknown', randomtxt: 'txt' };
  const { samples, tolerance } = sharedModelJson('magika/expected.json') as Magika;

  test.each(samples)('$file is $api_label', async ({ file, api_label, top3, ...input }) => {
    const bytes = sharedModelFile(`magika/${file}`);
    const model = examples.engine.catalog.resolve('magika', '');
    const { tensors } = await examples.preprocessor.file(model, bytes);
    const values = [...new Int32Array(new Uint8Array(tensors![0]!.data).buffer)];
    expect(values.reduce((sum, value) => sum + value, 0)).toBe(input.input_sum);
    expect([values.slice(0, 8), values.slice(-8)]).toEqual([input.input_first_8, input.input_last_8]);

    const answer = await post<LabelScore[]>('/models/magika', bytes);
    expect(answer[0]!.label).toBe(api_label);
    for (const { label, probability } of top3) {
      const { score } = answer.find((entry) => entry.label === (renamed[label] ?? label))!;
      expect(Math.abs(score - probability)).toBeLessThanOrEqual(tolerance.probability_batch_1);
    }
  });
});

interface Digits {
  readonly tolerance: { readonly probabilities: number };
  readonly samples: readonly {
    readonly pixels: number[];
    readonly probabilities: number[];
    readonly predicted_label: number;
  }[];
}

interface V2Answer {
  readonly outputs: readonly { readonly name: string; readonly shape: number[]; readonly data: number[] }[];
}

test('digits_mlp, all samples in one request', async () => {
  const { samples, tolerance } = sharedModelJson('digits_mlp/expected.json') as Digits;
  const data = samples.flatMap(({ pixels }) => pixels);
  const inputs = [{ name: 'pixels', datatype: 'FP32', shape: [samples.length, 64], data }];
  const { outputs } = await post<V2Answer>('/v2/models/digits_mlp/infer', { inputs });
  const output = (name: string) => outputs.find((candidate) => candidate.name === name)!;
  expect(output('label').data).toEqual(samples.map(({ predicted_label }) => predicted_label));
  samples
    .flatMap(({ probabilities }) => probabilities)
    .forEach((probability, i) => {
      const found = output('probabilities').data[i]!;
      expect(Math.abs(found - probability)).toBeLessThanOrEqual(tolerance.probabilities);
    });
});

test('the photo of the README is an espresso', async () => {
  const [best] = await post<LabelScore[]>('/models/efficientnet_lite0_int8', exampleFile('photos/coffee.png'));
  expect(best!.label).toBe('espresso');
  expect(Math.abs(best!.score - 0.95)).toBeLessThan(0.05);
});
