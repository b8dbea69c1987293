import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { prepareTexts } from '../../../../../producer/preprocess/text/prepare-texts.ts';
import { parseTextPipeline, type TextPipeline } from '../../../../../producer/preprocess/text/text-pipeline.ts';
import { TextTokenizer } from '../../../../../producer/preprocess/text/text-tokenizer.ts';
import { TokenizerCache } from '../../../../../producer/preprocess/text/tokenizer-cache.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { modelWithFiles } from '../../../../support/text-files-model.ts';

const file = (name: string) =>
  readFileSync(new URL(`../../../../../examples/models/minilm/${name}`, import.meta.url), 'utf8');

const minilm = parseTextPipeline(
  {
    tokenizer: file('tokenizer.json'),
    tokenizerConfig: file('tokenizer_config.json'),
    sentenceBertConfig: file('sentence_bert_config.json'),
    modelConfig: file('config.json'),
  },
  modelWithFiles({
    inputs: { input_ids: ['INT64', -1], attention_mask: ['INT64', -1], token_type_ids: ['INT64', -1] },
  }),
);
const tokenizer = new TextTokenizer(minilm);

function valuesOf({ datatype, data }: Tensor): number[] {
  const { buffer } = new Uint8Array(data);
  return datatype === 'INT64' ? [...new BigInt64Array(buffer)].map(Number) : [...new Int32Array(buffer)];
}

const prepare = (texts: string[], changes: Partial<TextPipeline> = {}) =>
  prepareTexts(texts, new TextTokenizer({ ...minilm, ...changes }), { ...minilm, ...changes });

describe('prepareTexts', () => {
  test('pads a request to its longest text', () => {
    const { tensors, tokens, starts } = prepareTexts(['hello', 'hello world'], tokenizer, minilm);
    expect(tensors.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([
      ['input_ids', 'INT64', [2, 4]],
      ['attention_mask', 'INT64', [2, 4]],
      ['token_type_ids', 'INT64', [2, 4]],
    ]);
    expect(tensors.map(valuesOf)).toEqual([
      [101, 7592, 102, 0, 101, 7592, 2088, 102],
      [1, 1, 1, 0, 1, 1, 1, 1],
      [0, 0, 0, 0, 0, 0, 0, 0],
    ]);
    expect(tokens).toEqual([3, 4]);
    expect(starts).toEqual([0, 0]);
  });

  test('pads on the left where the tokenizer does', () => {
    const { tensors, starts } = prepare(['hello', 'hello world'], { padSide: 'left', padId: 9, padTypeId: 1 });
    expect(tensors.map(valuesOf)).toEqual([
      [9, 101, 7592, 102, 101, 7592, 2088, 102],
      [0, 1, 1, 1, 1, 1, 1, 1],
      [1, 0, 0, 0, 0, 0, 0, 0],
    ]);
    expect(starts).toEqual([1, 0]);
  });

  test('pads to a fixed length, in INT32, without a batch dimension', () => {
    const { tensors } = prepare(['hello'], {
      inputs: [
        { name: 'input_ids', datatype: 'INT32' },
        { name: 'position_ids', datatype: 'INT32' },
      ],
      fixedTokens: 5,
      batched: false,
    });
    expect(tensors.map(({ shape }) => shape)).toEqual([[5], [5]]);
    expect(tensors.map(valuesOf)).toEqual([
      [101, 7592, 102, 0, 0],
      [0, 1, 2, 0, 0],
    ]);
  });

  test('cuts a long text and keeps the tokens around it', () => {
    const words = 'one two three four five six seven eight';
    const whole = valuesOf(prepare([words]).tensors[0]!);
    const right = valuesOf(prepare([words], { maxTokens: 5 }).tensors[0]!);
    expect(right).toEqual([101, ...whole.slice(1, 4), 102]);
    const left = valuesOf(prepare([words], { maxTokens: 5, cutSide: 'left' }).tensors[0]!);
    expect(left).toEqual([101, ...whole.slice(-4, -1), 102]);
  });

  test('an empty text is its special tokens', () => {
    expect(valuesOf(prepareTexts([''], tokenizer, minilm).tensors[0]!)).toEqual([101, 102]);
  });
});

describe('TokenizerCache', () => {
  test('knows a tokenizer by model and generation, and forgets the older generation', () => {
    const cache = new TokenizerCache();
    expect(cache.get('m/1', 0, undefined)).toBeUndefined();
    const made = cache.get('m/1', 0, minilm);
    expect(cache.get('m/1', 0, undefined)).toBe(made);
    expect(made?.pipeline.tokenizerJson).toBe('');
    expect(cache.get('m/1', 1, undefined)).toBeUndefined();
    expect(cache.get('m/1', 1, minilm)).not.toBe(made);
    expect(cache.get('m/1', 0, undefined)).toBeUndefined();
  });

  test('keeps the sixteen that were used last', () => {
    const cache = new TokenizerCache();
    const tiny = { ...minilm, tokenizerJson: TINY, tokenizerConfigJson: '{}' };
    for (let i = 0; i < 16; i++) cache.get(`m${i}/1`, 0, tiny);
    cache.get('m0/1', 0, undefined);
    cache.get('new/1', 0, tiny);
    expect(cache.get('m0/1', 0, undefined)).toBeDefined();
    expect(cache.get('m1/1', 0, undefined)).toBeUndefined();
  });
});

/** A WordPiece tokenizer of three tokens, without any around the text. */
const TINY = JSON.stringify({
  version: '1.0',
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
    vocab: { '[UNK]': 0, a: 1, b: 2 },
  },
});

test('a tokenizer without special tokens cuts at the end of the text', () => {
  const tiny = { ...minilm, tokenizerJson: TINY, tokenizerConfigJson: '{}', maxTokens: 3 };
  expect(new TextTokenizer(tiny).encode('a b a b a').ids).toEqual([1, 2, 1]);
});
