import { lookup, type LookupAddress } from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { PublicAddresses } from './public-address.ts';
import { hostOf, type WebhookSettings } from './webhook-policy.ts';
import { signWebhook } from './webhook-secrets.ts';

/** A message that is to be delivered. */
export interface WebhookMessage {
  /** Of the job. */
  readonly id: string;
  readonly url: string;
  readonly body: string;
}

/** What became of one try; reasons hold nothing of the URL or the answer. */
export type WebhookOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'again'; readonly reason: string }
  /** Another try would be no better. */
  | { readonly kind: 'ended'; readonly reason: string };

const TIMEOUT_MS = 10_000;
/** What is read of an answer, so that its connection ends politely. */
const MAX_ANSWER_BYTES = 4096;
const GONE = 410;

const REFUSED: WebhookOutcome = {
  kind: 'ended',
  reason: 'its address is not on the internet; --webhook-allow-private allows that',
};

/** The code of the errors with which a lookup refuses. */
const REFUSED_CODE = 'ERR_WEBHOOK_ADDRESS';

/** Sends webhooks, one try a call. */
export class WebhookSender {
  readonly #settings: WebhookSettings;
  readonly #addresses = new PublicAddresses();
  readonly #lookup: LookupFunction | undefined;

  constructor(settings: WebhookSettings) {
    this.#settings = settings;
    this.#lookup = settings.allowPrivate ? undefined : publicLookup(this.#addresses);
  }

  /** Resolves within the time limit, never rejects. Redirects are not followed. */
  send({ id, url: text, body }: WebhookMessage, signal?: AbortSignal): Promise<WebhookOutcome> {
    const url = new URL(text); // was checked when the job was taken
    // Node asks no lookup about what is an address already.
    if (this.#lookup && isIP(hostOf(url)) !== 0 && !this.#addresses.has(hostOf(url))) return Promise.resolve(REFUSED);
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'millrace',
      ...signWebhook(this.#settings.secrets, id, Date.now(), body),
    };
    return new Promise((resolve) => {
      const request = (url.protocol === 'https:' ? https : http).request(url, {
        method: 'POST',
        headers,
        // A connection of its own, whose address was looked at.
        agent: false,
        ...(this.#lookup && { lookup: this.#lookup }),
        ...(signal && { signal }),
      });
      let isLate = false;
      const timer = setTimeout(() => {
        isLate = true;
        request.destroy();
      }, TIMEOUT_MS);
      request.on('response', (response) => {
        resolve(outcomeOf(response.statusCode ?? 0));
        drain(response);
      });
      request.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code === REFUSED_CODE) resolve(REFUSED);
        else
          resolve({ kind: 'again', reason: isLate ? lateReason() : `no answer: ${error.code ?? 'broken connection'}` });
      });
      request.on('close', () => {
        clearTimeout(timer);
        resolve({ kind: 'again', reason: isLate ? lateReason() : 'no answer' });
      });
      request.end(body);
    });
  }
}

function outcomeOf(status: number): WebhookOutcome {
  if (status >= 200 && status < 300) return { kind: 'delivered' };
  const reason = `answered ${status}`;
  return status === GONE ? { kind: 'ended', reason } : { kind: 'again', reason };
}

function lateReason(): string {
  return `no answer within ${TIMEOUT_MS / 1000} s`;
}

function drain(response: http.IncomingMessage): void {
  let byteLength = 0;
  response.on('data', (chunk: Buffer) => {
    byteLength += chunk.length;
    if (byteLength > MAX_ANSWER_BYTES) response.destroy();
  });
  response.on('error', () => undefined); // its status is known
}

/** Resolves a name to the addresses of it that are public; what connects uses no others. */
function publicLookup(addresses: PublicAddresses): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found: LookupAddress[]) => {
      if (error) {
        callback(error, []);
        return;
      }
      const open = found.filter(({ address }) => addresses.has(address));
      const [first] = open;
      if (!first) callback(Object.assign(new Error('refused'), { code: REFUSED_CODE }), []);
      else if (options.all === true) callback(null, open);
      else callback(null, first.address, first.family);
    });
  };
}
