import { parseJson, textOf } from './decode.ts';
import { MillraceError } from './millrace-error.ts';

export interface TransportOptions {
  /** Where the server listens, as `http://localhost:8000`. */
  readonly url: string;
  /** Sent with every request, for example what a restricted API asks for. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The key of a tenant, sent as `authorization: Bearer …`. */
  readonly apiKey?: string;
  /**
   * How often a request that was refused for load or lost its connection is made again, waiting as long as the server asks
   * to. A run changes nothing, so it may be made twice. Default 3.
   */
  readonly retries?: number;
  /** How long a call may take in all, in ms. Default 60,000. */
  readonly timeoutMs?: number;
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer> | string;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** Whether making the call twice does no harm. */
  readonly repeatable: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

const DEFAULT_RETRIES = 3;
const DEFAULT_TIMEOUT_MS = 60_000;
/** Between tries where the server does not say how long; doubled each time. */
const FIRST_WAIT_MS = 200;
const MAX_WAIT_MS = 30_000;
/** The longest that a timer can be set to; whoever gives more wants no limit. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Refused for load, or by something in between that lost the server: the same request may do better later. */
const WORTH_A_RETRY = new Set([429, 502, 503]);

/** The HTTP of a client: time limits, cancellation, tries. */
export class Transport {
  readonly #base: string;
  readonly #headers: Headers;
  readonly #retries: number;
  readonly #timeoutMs: number;

  /** @throws MillraceError for an address or a header that is none */
  constructor({
    url,
    headers = {},
    apiKey,
    retries = DEFAULT_RETRIES,
    timeoutMs = DEFAULT_TIMEOUT_MS,
  }: TransportOptions) {
    this.#base = baseOf(url);
    try {
      this.#headers = new Headers(headers);
      if (apiKey !== undefined) this.#headers.set('authorization', `Bearer ${apiKey}`);
    } catch (cause) {
      throw new MillraceError('headers and apiKey must be what an HTTP header can hold', 0, { cause });
    }
    this.#retries = retries;
    this.#timeoutMs = timeoutMs;
  }

  /** The whole answer. @throws MillraceError for any status but 2xx, and when there is no answer in time */
  async call(call: Call): Promise<Answer> {
    const { signal, limitMs } = this.#limit(call);
    const endMs = performance.now() + limitMs;
    for (let retry = 0; ; retry += 1) {
      try {
        const response = await this.#fetch(call, signal);
        return {
          status: response.status,
          headers: response.headers,
          body: new Uint8Array(await response.arrayBuffer()),
        };
      } catch (error) {
        const failure = this.#explain(error, call, signal, limitMs);
        const waitMs = failure.retryAfterMs ?? Math.min(FIRST_WAIT_MS * 2 ** retry, MAX_WAIT_MS);
        const again = retry < this.#retries && isWorthARetry(failure, call) && performance.now() + waitMs < endMs;
        if (!again || signal.aborted) throw failure;
        await sleep(waitMs, signal);
      }
    }
  }

  /** An answer whose body is read as it comes; no tries. @throws MillraceError as `call` */
  async stream(call: Call): Promise<ReadableStream<Uint8Array>> {
    const { signal, limitMs } = this.#limit(call);
    try {
      const { body } = await this.#fetch(call, signal);
      return body ?? new ReadableStream<Uint8Array>({ start: (controller) => controller.close() });
    } catch (error) {
      throw this.#explain(error, call, signal, limitMs);
    }
  }

  #limit({ signal, timeoutMs }: Call): { signal: AbortSignal; limitMs: number } {
    const limitMs = timeoutMs ?? this.#timeoutMs;
    if (!(limitMs >= 0)) throw new MillraceError(`timeoutMs: expected a number from 0 up, got ${limitMs}`);
    const signals = signal ? [signal] : [];
    if (limitMs <= MAX_TIMER_MS) signals.push(AbortSignal.timeout(Math.ceil(limitMs)));
    return { signal: AbortSignal.any(signals), limitMs };
  }

  async #fetch({ method, path, headers = {}, body }: Call, signal: AbortSignal): Promise<Response> {
    const all = new Headers(this.#headers);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    const response = await fetch(`${this.#base}${path}`, { method, headers: all, body: body ?? null, signal });
    if (response.ok) return response;
    throw await errorOf(response);
  }

  #explain(error: unknown, call: Call, signal: AbortSignal, limitMs: number): MillraceError {
    if (error instanceof MillraceError) return error;
    if (call.signal?.aborted) return new MillraceError('the call was aborted', 0, { cause: call.signal.reason });
    if (signal.aborted) return new MillraceError(`no answer within ${limitMs} ms`, 0, { cause: error });
    const { cause } = error instanceof Error ? error : { cause: undefined };
    const reason = cause instanceof Error ? ('code' in cause ? String(cause.code) : cause.message) : String(error);
    return new MillraceError(`no answer from ${this.#base}: ${reason}`, 0, { cause: error });
  }
}

function baseOf(text: string): string {
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (/^https?:/i.test(address) && URL.canParse(address)) return new URL(address).href.replace(/\/+$/, '');
  throw new MillraceError(`url: expected an address like http://localhost:8000, got "${text}"`);
}

function isWorthARetry({ status, jobState }: MillraceError, { repeatable }: Call): boolean {
  if (jobState !== undefined) return false; // what a job ended with stays what it is
  return status === 0 ? repeatable : WORTH_A_RETRY.has(status) && (repeatable || status === 429);
}

async function errorOf(response: Response): Promise<MillraceError> {
  const body = new Uint8Array(await response.arrayBuffer());
  let said = '';
  try {
    const { error } = parseJson(body);
    said = textOf(error);
  } catch {
    // A page of something in between: its status says enough.
  }
  const seconds = Number(response.headers.get('retry-after') ?? NaN);
  const retryAfterMs = seconds >= 0 ? seconds * 1000 : undefined;
  const text = said === '' ? `the server answered with status ${response.status}` : said;
  const jobState = response.headers.get('millrace-job-state') ?? undefined;
  return new MillraceError(text, response.status, { retryAfterMs, jobState });
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
