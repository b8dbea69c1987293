import { describe, expect, test } from 'vitest';
import { parseImagePipeline } from '../../../../../producer/preprocess/image/image-pipeline.ts';
import { modelWithFiles, type ModelParts } from '../../../../support/text-files-model.ts';

const CLIP = {
  image_processor_type: 'CLIPImageProcessor',
  do_resize: true,
  size: { shortest_edge: 256 },
  resample: 3,
  do_center_crop: true,
  crop_size: { height: 224, width: 224 },
  do_rescale: true,
  rescale_factor: 1 / 255,
  do_normalize: true,
  image_mean: [0.5, 0.25, 0.1],
  image_std: [0.5, 0.5, 0.5],
};

const VIT = {
  image_processor_type: 'ViTImageProcessor',
  do_resize: true,
  size: { height: 224, width: 224 },
  resample: 2,
  do_normalize: true,
  image_mean: 0.5,
  image_std: 0.5,
};

function parse(config: object, parts: Partial<ModelParts> = {}) {
  return parseImagePipeline(JSON.stringify(config), modelWithFiles({ inputs: { x: ['FP32', 3, 224, 224] }, ...parts }));
}

describe('parseImagePipeline', () => {
  test('reads an edge, a crop and a normalisation', () => {
    expect(parse(CLIP)).toEqual({
      input: { name: 'x', datatype: 'FP32', layout: 'NCHW', channels: 3, height: 224, width: 224, batched: true },
      resize: { kind: 'shortest', edge: 256 },
      filter: 'bicubic',
      crop: { width: 224, height: 224 },
      rescale: 1 / 255,
      mean: [0.5, 0.25, Math.fround(0.1)],
      std: [0.5, 0.5, 0.5],
      options: { resize: 'pillow', icc: 'ignore', onCorrupt: 'reject' },
    });
  });

  test('takes a plain number as the shorter side or as a square, as the processor does', () => {
    expect(parse({ ...CLIP, size: 256, crop_size: 224 })).toMatchObject({
      resize: { kind: 'shortest', edge: 256 },
      crop: { width: 224, height: 224 },
    });
    expect(parse({ ...VIT, size: 224 })).toMatchObject({
      resize: { kind: 'exact', width: 224, height: 224 },
      crop: undefined,
    });
  });

  test('reads the feature extractors of older exports, which had no rescale keys', () => {
    const old = { ...VIT, image_processor_type: undefined, feature_extractor_type: 'ViTFeatureExtractor', size: 224 };
    expect(parse(old)).toMatchObject({
      rescale: 1 / 255,
      filter: 'bilinear',
      mean: [0.5, 0.5, 0.5],
    });
  });

  test('resizes for ConvNeXt to size / crop_pct and crops, or squeezes from 384 on', () => {
    const convnext = { ...VIT, image_processor_type: 'ConvNextImageProcessor', crop_pct: 0.875 };
    expect(parse({ ...convnext, size: { shortest_edge: 224 } })).toMatchObject({
      resize: { kind: 'shortest', edge: 256 },
      crop: { width: 224, height: 224 },
    });
    const large = { inputs: { x: ['FP32', 3, 384, 384] } } as const;
    expect(parse({ ...convnext, size: { shortest_edge: 384 } }, large)).toMatchObject({
      resize: { kind: 'exact', width: 384, height: 384 },
      crop: undefined,
    });
  });

  test('leaves out steps that are switched off', () => {
    const off = { ...VIT, do_resize: false, do_rescale: false, do_normalize: false };
    const anySize = { inputs: { x: ['FP32', 3, -1, -1] } } as const;
    expect(parse(off, anySize)).toMatchObject({ resize: undefined, rescale: 1, mean: [0, 0, 0], std: [1, 1, 1] });
  });

  test.each([
    ['NCHW', 3, [3, 224, 224]],
    ['NHWC', 3, [224, 224, 3]],
    ['NCHW', 1, [1, 224, 224]],
    ['NHWC', 1, [224, 224, 1]],
  ] as const)('finds layout %s of %d channels in the model', (layout, channels, dims) => {
    const pipeline = parse(VIT, { inputs: { x: ['FP32', ...dims] } });
    expect(pipeline.input).toMatchObject({ layout, channels, height: 224, width: 224 });
    expect(pipeline.mean).toHaveLength(channels);
  });

  test.each([
    ['a batch of any size', [-1, 3, 224, 224], true],
    ['a batch of one', [1, 3, 224, 224], true],
    ['no batch', [3, 224, 224], false],
  ] as const)('serves a model without max_batch_size that takes %s', (_what, dims, batched) => {
    expect(parse(VIT, { maxBatchSize: 0, inputs: { x: ['FP32', ...dims] } }).input.batched).toBe(batched);
  });

  test('reads the options of config.pbtxt', () => {
    const parameters = { image_resize: 'fast', image_icc: 'convert', image_on_corrupt: 'tolerate' };
    expect(parse(VIT, { parameters }).options).toEqual({ resize: 'fast', icc: 'convert', onCorrupt: 'tolerate' });
  });

  test('serves UINT8 inputs when nothing is left to be computed on the pixels', () => {
    const bytes = { inputs: { x: ['UINT8', 224, 224, 3] } } as const;
    expect(parse({ ...VIT, do_rescale: false, do_normalize: false }, bytes).input.datatype).toBe('UINT8');
    expect(() => parse(VIT, bytes)).toThrow(/takes UINT8 pixels, so do_rescale and do_normalize must be false/);
  });
});

describe('what cannot be done exactly is refused by its name', () => {
  test.each([
    [{ ...CLIP, image_processor_type: 'FlavaImageProcessor' }, /"FlavaImageProcessor" is not supported/],
    [{ ...CLIP, image_processor_type: 'constructor' }, /"constructor" is not supported/],
    [{ ...CLIP, image_processor_type: undefined }, /no image_processor_type/],
    [{ ...CLIP, do_pad: true }, /"do_pad" is not supported/],
    [{ ...CLIP, do_flip_channel_order: true }, /"do_flip_channel_order"/],
    [{ ...CLIP, rescale_offset: true }, /"rescale_offset"/],
    [{ ...CLIP, size: { longest_edge: 256 } }, /size must be a number, \{shortest_edge\} or \{height, width\}/],
    [{ ...CLIP, size: { shortest_edge: 256, longest_edge: 300 } }, /size must be/],
    [{ ...CLIP, size: undefined }, /size must be .* got nothing/],
    [{ ...CLIP, size: { shortest_edge: 2.5 } }, /size.shortest_edge must be a whole number/],
    [{ ...CLIP, size: { shortest_edge: 0 } }, /size.shortest_edge/],
    [{ ...CLIP, crop_size: undefined }, /crop_size must be/],
    [{ ...CLIP, resample: 9 }, /resample must be one of 0 \(nearest\)/],
    [{ ...CLIP, resample: undefined }, /resample must be one of/],
    [{ ...CLIP, image_mean: [0.5, 0.5] }, /image_mean must be 3 numbers/],
    [{ ...CLIP, image_std: [0.5, 0.5, 0] }, /image_std must be 3 numbers/],
    [{ ...CLIP, rescale_factor: 'x' }, /rescale_factor must be a number/],
    [{ ...CLIP, do_resize: 'yes' }, /do_resize must be true or false/],
    [{ ...VIT, do_center_crop: true, crop_size: 224 }, /ViTImageProcessor does not crop/],
    [{ ...CLIP, crop_size: 200 }, /gives 200 x 200, model "m" takes 224 x 224/],
    [{ ...CLIP, do_center_crop: false }, /gives pictures of varying size/],
    [{ ...VIT, image_processor_type: 'ConvNextImageProcessor', size: { shortest_edge: 224 } }, /crop_pct/],
  ])('%#', (config, message) => {
    expect(() => parse(config)).toThrow(message);
  });

  test('keys that are off, null, or do not reach the pixels do no harm', () => {
    const harmless = { do_pad: false, do_flip_channel_order: null, processor_class: 'X', do_convert_rgb: true };
    expect(parse({ ...CLIP, ...harmless })).toEqual(parse(CLIP));
  });

  test('a file that is no JSON object', () => {
    const model = modelWithFiles({ inputs: { x: ['FP32', 3, 224, 224] } });
    expect(() => parseImagePipeline('{', model)).toThrow(/preprocessor_config.json is not valid JSON/);
    expect(() => parseImagePipeline('[]', model)).toThrow(/preprocessor_config.json must be a JSON object/);
  });

  test.each([
    [{ x: ['FP32', 5, 224, 224] }],
    [{ x: ['INT64', 3, 224, 224] }],
    [{ x: ['FP32', 3, 224] }],
    [{ x: ['FP32', 3, 224, 224], y: ['FP32', 1] }],
  ] as const)('a model that does not take one picture: %j', (inputs) => {
    expect(() => parse(VIT, { inputs })).toThrow(/must have one input for pictures/);
  });

  test('an unknown value of an option', () => {
    expect(() => parse(VIT, { parameters: { image_resize: 'slow' } })).toThrow(
      /image_resize must be one of pillow, pillow-12, fast, got "slow"/,
    );
  });
});
