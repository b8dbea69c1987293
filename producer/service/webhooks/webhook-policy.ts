import { isIP } from 'node:net';
import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { PublicAddresses } from './public-address.ts';

export interface WebhookSettings {
  /** Keys to sign with. */
  readonly secrets: readonly Buffer[];
  /** Whether webhooks may go to addresses that are not on the internet. */
  readonly allowPrivate: boolean;
}

const MAX_URL_LENGTH = 2048;

/** Which webhooks a submission may ask for. */
export class WebhookPolicy {
  readonly #settings: WebhookSettings | undefined;
  readonly #addresses = new PublicAddresses();

  /** @param settings undefined where webhooks are switched off */
  constructor(settings: WebhookSettings | undefined) {
    this.#settings = settings;
  }

  /**
   * Checks what can be known before the job is over. Names are looked up when the webhook is sent.
   * @throws InferError INVALID_ARGUMENT
   */
  assertUsable(text: string): void {
    if (!this.#settings) {
      throw new InferError(
        'INVALID_ARGUMENT',
        'webhooks are switched off here, expected a job without; a server started with --webhook-secret sends them',
      );
    }
    const url = parseUrl(text);
    const host = hostOf(url);
    if (this.#settings.allowPrivate || isIP(host) === 0 || this.#addresses.has(host)) return;
    const expected = 'expected one on the internet; --webhook-allow-private allows others';
    throw new InferError('INVALID_ARGUMENT', `webhook goes to the address ${host}, ${expected}`);
  }
}

/** The name or address that a URL goes to, IPv6 without brackets. */
export function hostOf({ hostname }: URL): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

function parseUrl(text: string): URL {
  if (text.length > MAX_URL_LENGTH) {
    const message = `webhook must be a URL of at most ${MAX_URL_LENGTH} characters, got ${text.length}`;
    throw new InferError('INVALID_ARGUMENT', message);
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new InferError('INVALID_ARGUMENT', `webhook must be an http or https URL, got ${shownText(text)}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new InferError('INVALID_ARGUMENT', 'webhook must be a URL without user and password, got one with them');
  }
  return url;
}
