import { describe, expect, test } from 'vitest';
import { ModelMemo } from '../../../../producer/preprocess/model-memo.ts';
import { readModelProfile } from '../../../../producer/preprocess/model-profile.ts';
import { modelWithFiles, type ModelParts } from '../../../support/text-files-model.ts';

const IMAGE = { inputs: { pixel_values: ['FP32', 3, 224, 224] }, files: { 'preprocessor_config.json': '{}' } } as const;
const TEXT = { inputs: { input_ids: ['INT64', -1] }, files: { 'tokenizer.json': '{}' } } as const;

const profileOf = (parts: ModelParts) => readModelProfile(modelWithFiles(parts));
const withFiles = (base: ModelParts, files: Record<string, object>): ModelParts => ({
  ...base,
  files: { ...base.files, ...Object.fromEntries(Object.entries(files).map(([name, v]) => [name, JSON.stringify(v)])) },
});

describe('readModelProfile', () => {
  test('a model that takes pictures and names its outputs classifies them', async () => {
    const outputs = { logits: ['FP32', 2] } as const;
    expect(await profileOf({ ...IMAGE, outputs, labels: ['cat', 'dog'] })).toMatchObject({
      task: 'image-classification',
      labels: ['cat', 'dog'],
      output: { name: 'logits' },
    });
    const named = withFiles({ ...IMAGE, outputs }, { 'config.json': { id2label: { 1: 'dog', 0: 'cat' } } });
    expect(await profileOf(named)).toMatchObject({ task: 'image-classification', labels: ['cat', 'dog'] });
  });

  test('without names it gives vectors', async () => {
    expect(await profileOf({ ...IMAGE, outputs: { embeds: ['FP32', 1280] } })).toMatchObject({
      task: 'image-feature-extraction',
    });
  });

  test('names that do not fit the output are not its names', async () => {
    const parts = { ...TEXT, outputs: { embedding: ['FP32', 384] } } as const;
    const labelled = withFiles(parts, { 'config.json': { id2label: { 0: 'LABEL_0', 1: 'LABEL_1' } } });
    expect(await profileOf(labelled)).toMatchObject({ task: 'feature-extraction', labels: [] });
  });

  test('a model that takes tokens and names its outputs classifies texts', async () => {
    const parts = withFiles(
      { ...TEXT, outputs: { logits: ['FP32', 2] } },
      { 'config.json': { id2label: { 0: 'bad', 1: 'good' } } },
    );
    expect(await profileOf(parts)).toMatchObject({ task: 'text-classification', scores: 'detect' });
    const several = withFiles(parts, {
      'config.json': { id2label: { 0: 'bad', 1: 'good' }, problem_type: 'multi_label_classification' },
    });
    expect(await profileOf(several)).toMatchObject({ scores: 'sigmoid' });
  });

  test('reads how sentence-transformers pools', async () => {
    const parts = withFiles(
      { ...TEXT, outputs: { last_hidden_state: ['FP32', -1, 384] } },
      {
        '1_Pooling/config.json': { pooling_mode_mean_tokens: true },
        'modules.json': [{ type: 'sentence_transformers.models.Normalize' }],
      },
    );
    expect(await profileOf(parts)).toMatchObject({ pooling: { mode: 'mean', normalize: true } });
  });

  test('a Magika model tells file types, under the names that Magika gives', async () => {
    const parts = {
      inputs: { bytes: ['INT32', 2048] },
      outputs: { target_label: ['FP32', 2] },
      labels: ['c', 'randomtxt'],
    } as const;
    const files = { 'magika_config.json': { overwrite_map: { randomtxt: 'txt' } } };
    expect(await profileOf(withFiles(parts, files))).toMatchObject({ task: 'file-type', labels: ['c', 'txt'] });
  });

  test('a model without such files can only be called with tensors', async () => {
    expect(await profileOf({ inputs: { pixels: ['FP32', 64] }, outputs: { y: ['FP32', 10] } })).toBeUndefined();
    expect(await profileOf({ ...TEXT, files: {}, outputs: { y: ['FP32', 10] } })).toBeUndefined();
  });
});

describe('ModelMemo', () => {
  test('derives once per model object, and again after a failure', async () => {
    let calls = 0;
    const memo = new ModelMemo(() => (calls++ === 0 ? Promise.reject(new Error('once')) : Promise.resolve(calls)));
    const model = modelWithFiles(TEXT);
    await expect(memo.get(model)).rejects.toThrow('once');
    expect(await memo.get(model)).toBe(2);
    expect(await memo.get(model)).toBe(2);
    expect(await memo.get(modelWithFiles(TEXT))).toBe(3);
  });
});
