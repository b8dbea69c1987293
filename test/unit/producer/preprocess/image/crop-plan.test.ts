import { describe, expect, test } from 'vitest';
import { planCrop } from '../../../../../producer/preprocess/image/crop-plan.ts';

const size = (width: number, height: number) => ({ width, height });
const edge = (pixels: number) => ({ kind: 'shortest', edge: pixels }) as const;

describe('planCrop', () => {
  test('cuts the long side down to whole pixels and crops from the middle, rounded down', () => {
    expect(planCrop(size(451, 300), { resize: edge(256), crop: size(224, 224) })).toEqual({
      resized: size(384, 256),
      window: { left: 80, top: 16, width: 224, height: 224 },
      result: size(224, 224),
      left: 0,
      top: 0,
    });
    expect(planCrop(size(300, 451), { resize: edge(256), crop: size(224, 225) })).toMatchObject({
      resized: size(256, 384),
      window: { left: 16, top: 79, width: 224, height: 225 },
    });
  });

  test('puts a picture that is smaller than the crop where the processors put it: above and left get the odd pixel', () => {
    expect(planCrop(size(3, 8), { resize: undefined, crop: size(6, 5) })).toEqual({
      resized: size(3, 8),
      window: { left: 0, top: 1, width: 3, height: 5 },
      result: size(6, 5),
      left: 2,
      top: 0,
    });
  });

  test('squeezes into an exact size', () => {
    const resize = { kind: 'exact', width: 224, height: 100 } as const;
    expect(planCrop(size(640, 480), { resize, crop: undefined })).toMatchObject({
      resized: size(224, 100),
      window: { left: 0, top: 0, width: 224, height: 100 },
    });
  });

  test('leaves a picture alone when nothing is asked for', () => {
    expect(planCrop(size(7, 5), { resize: undefined, crop: undefined })).toMatchObject({
      resized: size(7, 5),
      window: { left: 0, top: 0, width: 7, height: 5 },
    });
  });
});
