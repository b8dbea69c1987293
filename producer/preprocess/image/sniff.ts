import { InferError } from '../../../shared/errors.ts';

/** The picture formats that are decoded; everything else is refused before a decoder sees it. */
export type ImageFormat = 'JPEG' | 'PNG' | 'WebP' | 'GIF' | 'TIFF' | 'AVIF';

/** The bytes are no picture that is decoded: HTTP has a status of its own for it, other protocols do not. */
export class UnsupportedImageError extends InferError {
  constructor(what: string) {
    super('INVALID_ARGUMENT', `expected a picture (JPEG, PNG, WebP, GIF, TIFF or AVIF), got ${what}`);
  }
}

/**
 * The format of a file by its first bytes.
 * @throws UnsupportedImageError that says what the bytes look like instead.
 */
export function sniffImage(bytes: Uint8Array): ImageFormat {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 1024)).toString('latin1');
  for (const [format, pattern] of ACCEPTED) if (pattern.test(head)) return format;
  throw new UnsupportedImageError(nameOf(head));
}

const ACCEPTED: readonly (readonly [ImageFormat, RegExp])[] = [
  ['JPEG', /^\xff\xd8\xff/],
  ['PNG', /^\x89PNG\r\n\x1a\n/],
  ['GIF', /^GIF8[79]a/],
  ['WebP', /^RIFF[^]{4}WEBP/],
  ['TIFF', /^(II[*+]\0|MM\0[*+])/],
  ['AVIF', /^[^]{4}ftypavi[fs]/],
];

const REFUSED: readonly (readonly [string, RegExp])[] = [
  ['nothing: the body is empty', /^$/],
  ['HEIC, which is not supported', /^[^]{4}ftyp(hei[cxms]|hev[cx]|mif1|msf1)/],
  ['BMP, which is not supported', /^BM[^]{12}/],
  ['an icon file, which is not supported', /^\0\0[\x01\x02]\0/],
  ['JPEG XL, which is not supported', /^(\xff\x0a|\0\0\0\x0cJXL )/],
  ['JPEG 2000, which is not supported', /^(\0\0\0\x0cjP {2}|\xff\x4f\xff\x51)/],
  ['a Photoshop file, which is not supported', /^8BPS/],
  ['PDF, which is not supported', /^\s*%PDF/],
  ['HTML', /^\s*<(!doctype html|html)/i],
  ['SVG, which is not supported', /<svg[\s>]/i],
  ['XML', /^\s*<\?xml/],
  ['JSON', /^\s*[[{]/],
];

function nameOf(head: string): string {
  // A byte order mark may stand before text formats.
  const text = head.replace(/^\xef\xbb\xbf/, '');
  return REFUSED.find(([, pattern]) => pattern.test(text))?.[0] ?? 'an unknown format';
}
