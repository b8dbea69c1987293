import { InferError } from '../errors.ts';

/**
 * A JSON header and raw sections in one buffer, all integers little-endian uint32:
 *
 *   "MLR1" | header length | number of sections | length of each section … | header (UTF-8 JSON) | sections …
 *
 * The end of the last section is the end of the buffer.
 */
export interface Frame {
  /** Parsed JSON, nothing known of it yet. */
  readonly header: unknown;
  /** Views into the decoded buffer. */
  readonly sections: readonly Buffer[];
}

const MAGIC = 0x31524c4d;
const FIXED_BYTES = 12;
const MAX_SECTIONS = 65_536;
/** Redis takes 512 MiB in one value; a frame stays below with room for the command around it. */
export const MAX_FRAME_BYTES = 500 * 1024 * 1024;

/** @throws InferError RESOURCE_EXHAUSTED when the frame would not fit into one Redis value. */
export function encodeFrame(header: object, sections: readonly Uint8Array[]): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const tableBytes = sections.length * 4;
  let byteLength = FIXED_BYTES + tableBytes + head.byteLength;
  for (const section of sections) byteLength += section.byteLength;
  if (byteLength > MAX_FRAME_BYTES || sections.length > MAX_SECTIONS) {
    throw new InferError(
      'RESOURCE_EXHAUSTED',
      `a message of ${byteLength} bytes in ${sections.length} parts does not fit the queue, the limit is ${MAX_FRAME_BYTES} bytes in ${MAX_SECTIONS} parts`,
    );
  }
  const frame = Buffer.allocUnsafe(byteLength);
  frame.writeUInt32LE(MAGIC, 0);
  frame.writeUInt32LE(head.byteLength, 4);
  frame.writeUInt32LE(sections.length, 8);
  let at = FIXED_BYTES;
  for (const section of sections) at = frame.writeUInt32LE(section.byteLength, at);
  frame.set(head, at);
  at += head.byteLength;
  for (const section of sections) {
    frame.set(section, at);
    at += section.byteLength;
  }
  return frame;
}

/** @throws InferError INVALID_ARGUMENT when a length does not add up or the header is not JSON. */
export function decodeFrame(frame: Buffer): Frame {
  if (frame.byteLength < FIXED_BYTES || frame.readUInt32LE(0) !== MAGIC) throw broken('it does not start as a frame');
  const headBytes = frame.readUInt32LE(4);
  const count = frame.readUInt32LE(8);
  if (count > MAX_SECTIONS) throw broken(`it announces ${count} sections, at most ${MAX_SECTIONS} are allowed`);
  const headAt = FIXED_BYTES + count * 4;
  let at = headAt + headBytes;
  if (at > frame.byteLength) throw broken(`its header ends at byte ${at} of ${frame.byteLength}`);
  const header = parseHeader(frame.toString('utf8', headAt, at));
  const sections: Buffer[] = [];
  for (let index = 0; index < count; index += 1) {
    const end = at + frame.readUInt32LE(FIXED_BYTES + index * 4);
    if (end > frame.byteLength) throw broken(`section ${index} ends at byte ${end} of ${frame.byteLength}`);
    sections.push(frame.subarray(at, end));
    at = end;
  }
  if (at !== frame.byteLength) throw broken(`${frame.byteLength - at} bytes follow the last section`);
  return { header, sections };
}

function parseHeader(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'broken frame: its header is not JSON', { cause });
  }
}

function broken(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `broken frame: ${what}`);
}
