import { InferError } from '../errors.ts';
import type { QueueKeys, Signature, SignedThing, UnknownSignature } from './queue-keys.ts';
import { isRecord } from './record.ts';

/**
 * A text with its signature, as JSON: `{"signed": text, "key": id, "mac": hex}`. What is signed is the text as it stands, so
 * nobody has to agree on how JSON is written.
 */
export interface Sealed extends Signature {
  readonly signed: string;
}

export function isSealed(value: unknown): value is { readonly signed: string } & UnknownSignature {
  return isRecord(value) && typeof value.signed === 'string';
}

/** The text itself where there are no keys. */
export function sealText(keys: QueueKeys | undefined, thing: SignedThing, about: string, text: string): string {
  if (!keys) return text;
  const sealed: Sealed = { signed: text, ...keys.sign(thing, about, text) };
  return JSON.stringify(sealed);
}

/**
 * The text of what `sealText` wrote. Without keys nothing is checked.
 * @throws InferError PERMISSION_DENIED when it is not signed as it should be
 */
export function openText(keys: QueueKeys | undefined, thing: SignedThing, about: string, text: string): string {
  const wire = text.startsWith(SEALED_START) ? parseJson(text) : undefined;
  if (!isSealed(wire)) {
    keys?.check(thing, about, text, {});
    return text;
  }
  keys?.check(thing, about, wire.signed, wire);
  return wire.signed;
}

const SEALED_START = '{"signed":';

/** Bytes with their signature: "MLRS", the length of the key's id in one byte, the id, 64 hex digits, the bytes. */
export function sealBytes(keys: QueueKeys | undefined, thing: SignedThing, about: string, bytes: Buffer): Buffer {
  if (!keys) return bytes;
  const { key, mac } = keys.sign(thing, about, bytes);
  return Buffer.concat([BYTES_START, Buffer.from([key.length]), Buffer.from(`${key}${mac}`, 'latin1'), bytes]);
}

/** A view of what `sealBytes` was given. @throws InferError PERMISSION_DENIED as `openText` does */
export function openBytes(keys: QueueKeys | undefined, thing: SignedThing, about: string, bytes: Buffer): Buffer {
  if (!bytes.subarray(0, BYTES_START.length).equals(BYTES_START)) {
    keys?.check(thing, about, bytes, {});
    return bytes;
  }
  const keyAt = BYTES_START.length + 1;
  const macAt = keyAt + (bytes[BYTES_START.length] ?? 0);
  const content = bytes.subarray(macAt + MAC_DIGITS);
  const key = bytes.toString('latin1', keyAt, macAt);
  const mac = bytes.toString('latin1', macAt, macAt + MAC_DIGITS);
  keys?.check(thing, about, content, { key, mac });
  return content;
}

const BYTES_START = Buffer.from('MLRS');
const MAC_DIGITS = 64;

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'broken signed text: it is not JSON', { cause });
  }
}
