import { createHmac } from 'node:crypto';
import { InferError } from '../../../shared/errors.ts';

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
const MIN_BYTES = 24;
const MAX_BYTES = 64;
/** One to sign with, one that receivers may still know, one that they may know already. */
const MAX_SECRETS = 3;

/**
 * Keys to sign with, from one text: each `whsec_` and its bytes in base64, separated by spaces.
 * @throws InferError INVALID_ARGUMENT, without the text in it
 */
export function parseWebhookSecrets(option: string, text: string): readonly Buffer[] {
  const expected = `expected whsec_ and ${MIN_BYTES} to ${MAX_BYTES} bytes in base64, such as openssl rand -base64 32 prints`;
  const words = text.split(/\s+/).filter((word) => word !== '');
  if (words.length < 1 || words.length > MAX_SECRETS) {
    const wanted = `expected 1 to ${MAX_SECRETS}, separated by spaces`;
    throw new InferError('INVALID_ARGUMENT', `${option} has ${words.length} secrets, ${wanted}`);
  }
  return words.map((word, index) => {
    const [, base64] = SECRET.exec(word) ?? [];
    const which = `${option}: secret ${index + 1} of ${words.length}`;
    if (base64 === undefined)
      throw new InferError('INVALID_ARGUMENT', `${which} is not of the right form, ${expected}`);
    const key = Buffer.from(base64, 'base64');
    if (key.length >= MIN_BYTES && key.length <= MAX_BYTES) return key;
    throw new InferError('INVALID_ARGUMENT', `${which} has ${key.length} bytes, ${expected}`);
  });
}

/** What a receiver needs to know that a webhook is ours and new, as the Standard Webhooks specification has it. */
export interface WebhookHeaders {
  /** The same for each try, so that a receiver can tell that it has had it. */
  readonly 'webhook-id': string;
  /** Of this try, in Unix seconds. */
  readonly 'webhook-timestamp': string;
  /** One signature per secret, separated by spaces. */
  readonly 'webhook-signature': string;
}

export function signWebhook(secrets: readonly Buffer[], id: string, nowMs: number, body: string): WebhookHeaders {
  const timestamp = String(Math.floor(nowMs / 1000));
  const signatures = secrets.map((secret) => {
    return `v1,${createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') };
}
