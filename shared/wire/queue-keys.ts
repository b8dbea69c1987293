import { createHmac, timingSafeEqual } from 'node:crypto';
import { InferError } from '../errors.ts';

/** What is signed, each kind under its own name, so that a signature of one is none of another. */
export const SIGNED_THINGS = [
  'job',
  'tensors',
  'reply',
  'record',
  'end',
  'webhook',
  'control',
  'control-result',
  'drain',
  'traffic',
  'description',
  'cache',
] as const;
export type SignedThing = (typeof SIGNED_THINGS)[number];

/** A secret that producers, workers and whoever else may enqueue share. */
export interface QueueKey {
  readonly id: string;
  readonly secret: Buffer;
}

export interface Signature {
  /** Id of the key. */
  readonly key: string;
  /** HMAC-SHA256 in lower-case hex. */
  readonly mac: string;
}

const MAC = /^[0-9a-f]{64}$/;
const KEY_ID = /^[A-Za-z0-9_.-]{1,32}$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const MIN_SECRET_BYTES = 32;
const MAX_SECRET_BYTES = 64;
const MAX_KEYS = 8;

/**
 * Signs what lies in Redis and checks what is found there: `HMAC-SHA256(secret, "millrace.<thing>.1\n<about>\n" + data)`,
 * where `about` says which one of its kind it is and where it lies. The first key signs, all of them check.
 */
export class QueueKeys {
  #keys: readonly [QueueKey, ...QueueKey[]];
  readonly #acceptsUnsigned: boolean;
  readonly #refused = new Map<SignedThing, number>(SIGNED_THINGS.map((thing) => [thing, 0]));

  /** @param acceptsUnsigned what bears no signature counts too; a wrong one never does */
  constructor(keys: readonly [QueueKey, ...QueueKey[]], acceptsUnsigned = false) {
    this.#keys = keys;
    this.#acceptsUnsigned = acceptsUnsigned;
  }

  /** From now on these sign and check, and no others. */
  replace(keys: readonly [QueueKey, ...QueueKey[]]): void {
    this.#keys = keys;
  }

  sign(thing: SignedThing, about: string, data: string | Uint8Array): Signature {
    const [{ id, secret }] = this.#keys;
    return { key: id, mac: macOf(secret, thing, about, data).toString('hex') };
  }

  /**
   * Whether it is signed; false for what is not and need not be.
   * @throws InferError PERMISSION_DENIED, which is counted
   */
  check(thing: SignedThing, about: string, data: string | Uint8Array, { key, mac }: UnknownSignature): boolean {
    if (isNone(key) && isNone(mac)) {
      if (this.#acceptsUnsigned) return false;
      throw this.refuse(thing, `the ${thing} is not signed, and this pool takes signed ones only`);
    }
    const secret = this.#keys.find(({ id }) => id === key)?.secret;
    if (!secret) throw this.refuse(thing, `the ${thing} is signed with a key that is not known here`);
    const isWhole = typeof mac === 'string' && MAC.test(mac);
    if (!isWhole || !timingSafeEqual(macOf(secret, thing, about, data), Buffer.from(mac, 'hex'))) {
      throw this.refuse(thing, `the signature of the ${thing} is wrong`);
    }
    return true;
  }

  /** Counts one that was refused, and says why. */
  refuse(thing: SignedThing, message: string): InferError {
    this.#refused.set(thing, (this.#refused.get(thing) ?? 0) + 1);
    return new InferError('PERMISSION_DENIED', message);
  }

  /** How many of each kind were refused since the start. */
  refused(): ReadonlyMap<SignedThing, number> {
    return this.#refused;
  }
}

/** As it was found; nothing is known of it. */
export interface UnknownSignature {
  readonly key?: unknown;
  readonly mac?: unknown;
}

/**
 * Keys from the text of a file: one a line, its id and its secret in base64; empty lines and those that begin with # do not
 * count.
 * @throws InferError INVALID_ARGUMENT naming the line, without what stands in it
 */
export function parseQueueKeys(text: string): readonly [QueueKey, ...QueueKey[]] {
  const keys: QueueKey[] = [];
  text.split('\n').forEach((line, index) => {
    const trimmed = line.trim();
    if (trimmed === '' || trimmed.startsWith('#')) return;
    const key = parseLine(trimmed, index + 1);
    if (keys.some(({ id }) => id === key.id)) {
      throw invalid(`line ${index + 1} has the id of a line before, expected each id once`);
    }
    keys.push(key);
  });
  const [first, ...others] = keys;
  if (!first || keys.length > MAX_KEYS) throw invalid(`it has ${keys.length} keys, expected 1 to ${MAX_KEYS}`);
  return [first, ...others];
}

function parseLine(line: string, number: number): QueueKey {
  const [id = '', base64 = '', ...rest] = line.split(/\s+/);
  const expected = `expected an id and ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes in base64, such as openssl rand -base64 32 prints`;
  if (rest.length > 0 || !KEY_ID.test(id) || !BASE64.test(base64)) {
    throw invalid(`line ${number} is not of the right form, ${expected}`);
  }
  const secret = Buffer.from(base64, 'base64');
  if (secret.length < MIN_SECRET_BYTES || secret.length > MAX_SECRET_BYTES) {
    throw invalid(`the secret in line ${number} has ${secret.length} bytes, ${expected}`);
  }
  return { id, secret };
}

function macOf(secret: Buffer, thing: SignedThing, about: string, data: string | Uint8Array): Buffer {
  return createHmac('sha256', secret).update(`millrace.${thing}.1\n${about}\n`).update(data).digest();
}

/** Fields of Redis that are not there are null, those of JSON undefined. */
function isNone(value: unknown): boolean {
  return value === undefined || value === null;
}

function invalid(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', what);
}
