import { describe, expect, test } from 'vitest';
import { parseTextPipeline, type TextFiles } from '../../../../../producer/preprocess/text/text-pipeline.ts';
import { modelWithFiles, type ModelParts } from '../../../../support/text-files-model.ts';

const INPUTS = { input_ids: ['INT64', -1], attention_mask: ['INT64', -1] } as const;

function parse(files: Partial<Record<keyof TextFiles, object>>, parts: Partial<ModelParts> = {}) {
  const text = (value: object | undefined) => (value ? JSON.stringify(value) : '');
  return parseTextPipeline(
    {
      tokenizer: text(files.tokenizer ?? {}),
      tokenizerConfig: text(files.tokenizerConfig),
      sentenceBertConfig: text(files.sentenceBertConfig),
      modelConfig: text(files.modelConfig),
    },
    modelWithFiles({ inputs: INPUTS, ...parts }),
  );
}

describe('parseTextPipeline', () => {
  test('takes the length limit from the most specific file that has a sane one', () => {
    const files = {
      sentenceBertConfig: { max_seq_length: 256 },
      tokenizerConfig: { model_max_length: 384 },
      modelConfig: { max_position_embeddings: 512 },
    };
    expect(parse(files).maxTokens).toBe(256);
    expect(parse({ ...files, sentenceBertConfig: {} }).maxTokens).toBe(384);
    const endless = { model_max_length: 1e30 };
    expect(parse({ modelConfig: files.modelConfig, tokenizerConfig: endless }).maxTokens).toBe(512);
    expect(parse({}).maxTokens).toBe(512);
  });

  test('does not take the truncation and padding that tokenizer.json asks for', () => {
    const tokenizer = {
      truncation: { max_length: 128 },
      padding: { strategy: { Fixed: 128 }, pad_id: 3, pad_type_id: 2 },
    };
    expect(parse({ tokenizer, tokenizerConfig: { model_max_length: 300 } })).toMatchObject({
      maxTokens: 300,
      fixedTokens: undefined,
      padId: 3,
      padTypeId: 2,
    });
  });

  test('finds the padding token by its text, or in config.json', () => {
    const tokenizer = { added_tokens: [{ id: 7, content: '<pad>' }] };
    expect(parse({ tokenizer, tokenizerConfig: { pad_token: '<pad>' } }).padId).toBe(7);
    expect(parse({ tokenizer, tokenizerConfig: { pad_token: { content: '<pad>' } } }).padId).toBe(7);
    expect(parse({ modelConfig: { pad_token_id: 5 } }).padId).toBe(5);
    expect(parse({}).padId).toBe(0);
  });

  test('pads to the length that the model was exported with', () => {
    const inputs = { input_ids: ['INT32', 64], attention_mask: ['INT32', 64] } as const;
    expect(parse({ tokenizerConfig: { model_max_length: 512 } }, { inputs })).toMatchObject({
      fixedTokens: 64,
      maxTokens: 64,
      inputs: [
        { name: 'input_ids', datatype: 'INT32' },
        { name: 'attention_mask', datatype: 'INT32' },
      ],
    });
  });

  test.each([
    [8, [-1], 8, true],
    [0, [-1, -1], 32, true],
    [0, [1, -1], 1, true],
    [0, [-1], 1, false],
  ] as const)(
    'puts as many texts in a request as the model takes: max_batch_size %d, dims %j',
    (max, dims, rows, batched) => {
      const inputs = { input_ids: ['INT64', ...dims] } as const;
      expect(parse({}, { maxBatchSize: max, inputs })).toMatchObject({ maxRows: rows, batched });
    },
  );

  test('reads the sides', () => {
    const tokenizerConfig = { padding_side: 'left', truncation_side: 'left' };
    expect(parse({ tokenizerConfig })).toMatchObject({ padSide: 'left', cutSide: 'left' });
  });

  test.each([
    [{ input_ids: ['INT64', -1], pixels: ['FP32', -1] }, /input "pixels", which no tokenizer makes/],
    [{ input_ids: ['FP32', -1] }, /"input_ids" as FP32; a tokenizer gives INT64 or INT32/],
    [{ input_ids: ['INT64', -1, 3, 4] }, /\[tokens\] or \[batch, tokens\]/],
    [{ input_ids: ['INT64', 64], attention_mask: ['INT64', 32] }, /different lengths: 64, 32/],
  ] as const)('refuses a model that takes %j', (inputs, message) => {
    expect(() => parse({}, { inputs })).toThrow(message);
  });

  test('names the file that is no JSON', () => {
    const model = modelWithFiles({ inputs: INPUTS });
    const files = { tokenizer: '{}', tokenizerConfig: '{', sentenceBertConfig: '', modelConfig: '' };
    expect(() => parseTextPipeline(files, model)).toThrow(/tokenizer_config.json is not valid JSON/);
  });
});
