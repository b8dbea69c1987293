import { describe, expect, it } from 'vitest';
import type { Datatype } from '../../../../shared/tensor/datatype.ts';
import { encodeElement } from '../../../../shared/tensor/encode-element.ts';

describe('encodeElement', () => {
  it.each<[Datatype, string, number[]]>([
    ['BOOL', 'true', [1]],
    ['BOOL', '0', [0]],
    ['UINT8', '255', [255]],
    ['INT16', '-2', [0xfe, 0xff]],
    ['INT64', '-1', [255, 255, 255, 255, 255, 255, 255, 255]],
    ['INT64', '9007199254740993', [1, 0, 0, 0, 0, 0, 0x20, 0]],
    ['FP32', '1', [0, 0, 0x80, 0x3f]],
    ['FP32', '-Infinity', [0, 0, 0x80, 0xff]],
    ['FP64', '5e-1', [0, 0, 0, 0, 0, 0, 0xe0, 0x3f]],
    ['FP16', '1', [0, 0x3c]],
    ['FP16', '-65504', [0xff, 0xfb]],
    ['BF16', '1', [0x80, 0x3f]],
  ])('writes %s %s', (datatype, text, bytes) => {
    expect([...encodeElement(datatype, text)!]).toEqual(bytes);
  });

  it.each<[Datatype, string]>([
    ['BOOL', '2'],
    ['UINT8', '256'],
    ['UINT8', '-1'],
    ['INT32', '1.5'],
    ['INT32', ''],
    ['UINT64', '-1'],
    ['FP32', '1e40'],
    ['FP32', '0x10'],
    ['FP32', ''],
    ['FP16', '0.1'],
    ['BYTES', 'a'],
  ])('has no %s for %j', (datatype, text) => {
    expect(encodeElement(datatype, text)).toBeUndefined();
  });
});
