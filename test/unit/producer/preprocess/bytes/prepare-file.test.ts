import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseFilePipeline, parseRenamedLabels } from '../../../../../producer/preprocess/bytes/file-pipeline.ts';
import { prepareFile } from '../../../../../producer/preprocess/bytes/prepare-file.ts';
import { modelWithFiles } from '../../../../support/text-files-model.ts';

const config = readFileSync(
  new URL('../../../../../examples/models/magika/magika_config.json', import.meta.url),
  'utf8',
);
const model = modelWithFiles({ inputs: { bytes: ['INT32', 2048] } });
const pipeline = parseFilePipeline(config, model);

function valuesOf(bytes: Uint8Array): number[] {
  const { tensors } = prepareFile(bytes, pipeline);
  return [...new Int32Array(new Uint8Array(tensors![0]!.data).buffer)];
}

describe('prepareFile', () => {
  test('takes both ends without the white space outside and pads inwards', () => {
    const values = valuesOf(Buffer.from(' \t\n\r\v\fabcdefgh ij\n '));
    expect(values).toHaveLength(2048);
    expect(String.fromCharCode(...values.slice(0, 13))).toBe('abcdefgh ij\n ');
    expect(values.slice(13, 1024)).toEqual(new Array(1011).fill(256));
    const end = ' \t\n\r\v\fabcdefgh ij';
    expect(String.fromCharCode(...values.slice(-end.length))).toBe(end);
    expect(values.slice(1024, 2048 - end.length)).toEqual(new Array(1024 - end.length).fill(256));
  });

  test('takes 1024 bytes of each end of a long file', () => {
    const bytes = Uint8Array.from({ length: 10_000 }, (_, index) => 100 + (index % 100));
    const values = valuesOf(bytes);
    expect(values.slice(0, 1024)).toEqual([...bytes.subarray(0, 1024)]);
    expect(values.slice(1024)).toEqual([...bytes.subarray(-1024)]);
  });

  test('looks for white space in the outer 4096 bytes only', () => {
    const bytes = Buffer.concat([Buffer.from('12345678'), Buffer.alloc(9000, ' ')]);
    const values = valuesOf(bytes);
    expect(values.slice(1024)).toEqual(new Array(1024).fill(256));
  });

  test.each([
    ['empty', ''],
    ['txt', 'hello'],
    ['txt', 'grün'],
    ['unknown', '\xff\xfe\x00'],
    ['txt', '\n         abc'],
    ['txt', ' '.repeat(10_000)],
  ])('answers %s by itself for a file too small for the model: %j', (answer, text) => {
    const bytes = Buffer.from(text, text.startsWith('\xff') ? 'latin1' : 'utf8');
    expect(prepareFile(bytes, pipeline)).toEqual({ tensors: undefined, answer });
  });

  test('the shape follows the model', () => {
    expect(prepareFile(Buffer.from('12345678'), pipeline).tensors![0]!.shape).toEqual([1, 2048]);
    const alone = modelWithFiles({ maxBatchSize: 0, inputs: { bytes: ['INT32', 2048] } });
    const { tensors } = prepareFile(Buffer.from('12345678'), parseFilePipeline(config, alone));
    expect(tensors![0]!.shape).toEqual([2048]);
  });
});

describe('magika_config.json', () => {
  test('renames labels', () => {
    expect(parseRenamedLabels(config).get('randomtxt')).toBe('txt');
    expect(parseRenamedLabels('{}').size).toBe(0);
  });

  test.each([
    [{ mid_size: 512 }, /without mid_size/],
    [{ use_inputs_at_offsets: true }, /use_inputs_at_offsets/],
    [{ beg_size: 0 }, /beg_size must be a whole number above 0/],
    [{ beg_size: 512 }, /must have one input INT32 of 1536 numbers/],
  ])('is refused where it asks for what is not done: %j', (change, message) => {
    const changed = JSON.stringify({ ...(JSON.parse(config) as object), ...change });
    expect(() => parseFilePipeline(changed, model)).toThrow(message);
  });
});
