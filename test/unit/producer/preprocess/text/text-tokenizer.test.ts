import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test, vi } from 'vitest';
import * as library from '@huggingface/tokenizers';
import { parseTextPipeline } from '../../../../../producer/preprocess/text/text-pipeline.ts';
import { TextTokenizer } from '../../../../../producer/preprocess/text/text-tokenizer.ts';
import { modelWithFiles } from '../../../../support/text-files-model.ts';

const file = (name: string) =>
  readFileSync(new URL(`../../../../../examples/models/minilm/${name}`, import.meta.url), 'utf8');

const pipeline = {
  ...parseTextPipeline(
    {
      tokenizer: file('tokenizer.json'),
      tokenizerConfig: file('tokenizer_config.json'),
      sentenceBertConfig: file('sentence_bert_config.json'),
      modelConfig: file('config.json'),
    },
    modelWithFiles({ inputs: { input_ids: ['INT64', -1], attention_mask: ['INT64', -1] } }),
  ),
  maxTokens: 16,
};
// The package's type files cannot be resolved, as in text-tokenizer.ts.
const { prototype } = (library as unknown as { Tokenizer: { prototype: { encode: (text: string) => unknown } } })
  .Tokenizer;

// So much is kept that nothing is cut.
const whole = new TextTokenizer({ ...pipeline, maxTokens: 1_000_000 });
const right = new TextTokenizer(pipeline);
const left = new TextTokenizer({ ...pipeline, cutSide: 'left' });

const sentences = 'The quick brown fox jumps over 13 lazy dogs, unbelievably; naïve cafés! '.repeat(200);
const texts: [name: string, text: string][] = [
  ['sentences', sentences],
  ['no spaces between words', '數字和文字'.repeat(3000)],
  ['pictures of two units each', 'a🙂'.repeat(5000)],
  ['one word that is too long to be one', 'x'.repeat(20_000)],
  ['a long blank in the middle', `one two ${' '.repeat(20_000)} three four`],
  ['a long word first', `${'x'.repeat(5000)} ${sentences}`],
  ['a long word last', `${sentences} ${'x'.repeat(5000)}`],
  ['marks that belong to letters before', 'e\u0301\u0302 '.repeat(5000)],
];

describe('TextTokenizer', () => {
  afterEach(() => vi.restoreAllMocks());

  test.each(texts)('cuts a long text as if it had been read whole: %s', (_name, text) => {
    const { ids } = whole.encode(text);
    const kept = Math.min(ids.length, pipeline.maxTokens) - 2;
    expect(right.encode(text).ids).toEqual([ids[0], ...ids.slice(1, 1 + kept), ids.at(-1)]);
    expect(left.encode(text).ids).toEqual([ids[0], ...ids.slice(-1 - kept, -1), ids.at(-1)]);
  });

  test('reads only as much of a long text as it needs', () => {
    const encode = vi.spyOn(prototype, 'encode');
    right.encode(sentences);
    left.encode(sentences);
    const read = encode.mock.calls.reduce((sum, [text]) => sum + text.length, 0);
    expect(encode).toHaveBeenCalled();
    expect(read).toBeLessThan(sentences.length / 10);
  });
});
