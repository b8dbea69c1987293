import { afterAll, describe, expect, test } from 'vitest';
import { createPreprocessor } from '../../../producer/preprocess/preprocessor.ts';
import { Call } from '../../../shared/infer/call.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { modelWithFiles } from '../../support/text-files-model.ts';
import { exampleFile } from './kit.ts';

const preprocessor = createPreprocessor({ threads: 2, imageLimits: { maxPixels: 1000 * 1000 } });
afterAll(() => preprocessor.close());

const open = () => new Call('test', 0, Infinity);

/** A text model whose words have the numbers of their place in the list. */
function wordModel(words: readonly string[]) {
  const vocab = Object.fromEntries(['[UNK]', ...words].map((word, id) => [word, id]));
  const tokenizer = {
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: 'Whitespace' },
    post_processor: null,
    decoder: null,
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab,
    },
  };
  return modelWithFiles({
    name: 'words',
    inputs: { input_ids: ['INT64', -1] },
    files: { 'tokenizer.json': JSON.stringify(tokenizer) },
  });
}

function imageModel(config: object = {}) {
  const whole = {
    image_processor_type: 'ViTImageProcessor',
    size: 32,
    resample: 2,
    image_mean: 0.5,
    image_std: 0.5,
    ...config,
  };
  const files = { 'preprocessor_config.json': JSON.stringify(whole) };
  return modelWithFiles({ inputs: { x: ['FP32', 3, 32, 32] }, files });
}

const idsOf = ({ data }: Tensor) => [...new BigInt64Array(new Uint8Array(data).buffer)].map(Number);

describe('the preprocessing threads', () => {
  test('use the tokenizer of the model as it is now, in every thread', async () => {
    for (const words of [
      ['a', 'b'],
      ['b', 'a'],
      ['x', 'a', 'b'],
    ]) {
      const model = wordModel(words);
      const calls = Array.from({ length: 8 }, () => preprocessor.texts(model, ['a b'], open()));
      const expected = [words.indexOf('a') + 1, words.indexOf('b') + 1];
      for (const { tensors } of await Promise.all(calls)) expect(idsOf(tensors[0]!)).toEqual(expected);
    }
  });

  test('make tensors of photos and leave the bytes to the caller', async () => {
    const photo = exampleFile('photos/coffee.png');
    const model = imageModel();
    const [one, two] = await Promise.all([
      preprocessor.image(model, photo, open()),
      preprocessor.image(model, photo, open()),
    ]);
    expect(one).toMatchObject({ name: 'x', datatype: 'FP32', shape: [1, 3, 32, 32] });
    expect(one.data).toHaveLength(32 * 32 * 3);
    expect(Buffer.compare(one.data, two.data)).toBe(0);
    expect(photo.length).toBeGreaterThan(0);
  });

  test('say what was wrong with the code that fits', async () => {
    const model = imageModel();
    await expect(preprocessor.image(model, Buffer.from('<svg>'), open())).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('got SVG') as string,
    });
    await expect(preprocessor.image(model, exampleFile('photos/retina.jpg'), open())).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'the picture is 1411 x 1411 pixels, at most 1000000 pixels allowed',
    });
    const odd = imageModel({ do_pad: true });
    await expect(preprocessor.image(odd, exampleFile('photos/coffee.png'), open())).rejects.toMatchObject({
      message: 'preprocessor_config.json: key "do_pad" is not supported',
    });
    const bare = modelWithFiles({ inputs: { input_ids: ['INT64', -1] } });
    await expect(preprocessor.texts(bare, ['a'], open())).rejects.toMatchObject({
      message: 'model "m" has no tokenizer.json',
    });
  });

  test('end when what was begun has ended', async () => {
    const short = createPreprocessor({ threads: 1 });
    const photo = exampleFile('photos/coffee.png');
    const model = imageModel();
    await short.image(model, photo, open());
    const begun = Array.from({ length: 5 }, () => short.image(model, photo, open()));
    await new Promise(setImmediate);
    const closed = short.close();
    await expect(short.image(model, photo, open())).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await Promise.all(begun)).toHaveLength(5);
    await closed;
  });
});
