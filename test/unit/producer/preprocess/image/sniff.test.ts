import { describe, expect, test } from 'vitest';
import { sniffImage, UnsupportedImageError } from '../../../../../producer/preprocess/image/sniff.ts';

describe('sniffImage', () => {
  test.each([
    ['nothing: the body is empty', ''],
    ['an unknown format', 'x'],
    ['an unknown format', 'just some text'],
    ['SVG', '<svg xmlns="http://www.w3.org/2000/svg" width="1000000" height="1"/>'],
    ['SVG', '\ufeff<?xml version="1.0"?>\n<!-- a comment -->\n<svg width="1"></svg>'],
    ['SVG', '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "&b;&b;">]><svg>&a;</svg>'],
    ['SVG', '<svg><image href="file:///etc/hosts"/></svg>'],
    ['PDF', '%PDF-1.7\n'],
    ['HTML', '<!DOCTYPE html><html></html>'],
    ['XML', '<?xml version="1.0"?><a/>'],
    ['JSON', '{"inputs": 1}'],
    ['BMP', 'BM' + '\0'.repeat(60)],
    ['an icon file', '\0\0\x01\0\x01\0'],
    ['HEIC', '\0\0\0\x18ftypheic'],
    ['JPEG XL', '\xff\x0a'],
    ['a Photoshop file', '8BPS\0\x01'],
  ])('says that it got %s', (what, head) => {
    const bytes = Buffer.from(head, head.includes('\ufeff') ? 'utf8' : 'latin1');
    expect(() => sniffImage(bytes)).toThrow(UnsupportedImageError);
    expect(() => sniffImage(bytes)).toThrow(`got ${what}`);
  });

  test.each([
    ['JPEG', '\xff\xd8\xff\xe0'],
    ['PNG', '\x89PNG\r\n\x1a\n'],
    ['GIF', 'GIF89a'],
    ['WebP', 'RIFF\x00\x00\x00\x00WEBPVP8 '],
    ['TIFF', 'II*\0'],
    ['TIFF', 'MM\0*'],
    ['AVIF', '\0\0\0\x20ftypavif'],
  ])('knows %s', (format, head) => {
    expect(sniffImage(Buffer.from(head, 'latin1'))).toBe(format);
  });
});
