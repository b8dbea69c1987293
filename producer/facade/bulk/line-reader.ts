/** One line of a body, without its end. */
export interface Line {
  /** From 0, blank ones counted. */
  readonly index: number;
  /** Undefined for one that is too long, whose bytes were thrown away. */
  readonly bytes: Buffer | undefined;
}

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;

/**
 * The lines of a stream, as they come and no further ahead than they are asked for. Blank ones are left out; the last one
 * needs no end. Lines are copies, so that none keeps more memory alive than its own.
 */
export async function* readLines(chunks: AsyncIterable<Buffer>, maxLineBytes: number): AsyncGenerator<Line> {
  let parts: Buffer[] = [];
  let byteLength = 0;
  let index = 0;
  const take = (): Line | undefined => {
    const isTooLong = byteLength > maxLineBytes;
    const bytes = isTooLong ? undefined : Buffer.concat(parts, byteLength);
    const line = { index, bytes };
    parts = [];
    byteLength = 0;
    index += 1;
    return bytes && isBlank(bytes) ? undefined : line;
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, from);
      const piece = chunk.subarray(from, end < 0 ? chunk.length : end);
      byteLength += piece.length;
      if (byteLength > maxLineBytes) parts = [];
      else if (piece.length > 0) parts.push(piece);
      if (end < 0) break;
      from = end + 1;
      const line = take();
      if (line) yield line;
    }
  }
  const last = byteLength > 0 ? take() : undefined;
  if (last) yield last;
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === SPACE || byte === CARRIAGE_RETURN || byte === 9);
}
