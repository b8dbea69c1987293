import { InferError } from '../../shared/errors.ts';
import type { PoolView } from '../../producer/pool/pool-view.ts';
import type { TrafficView } from '../../producer/service/traffic/traffic-control.ts';
import type { TrafficRuleJson } from '../../shared/traffic/traffic-json.ts';
import { shownText } from '../../shared/tensor/text.ts';

export interface ServerSettings {
  readonly url: string;
  readonly header: readonly string[];
  readonly timeoutSecs: number;
}

/** A row of the repository index. */
export interface IndexRow {
  readonly name: string;
  readonly version: string;
  readonly state: string;
  readonly reason: string;
}

/** The control calls of a running server over HTTP. */
export interface ServerClient {
  /** @throws InferError UNAVAILABLE with what the server said, or why there was no answer. */
  index(): Promise<IndexRow[]>;
  /** @param config JSON text that takes the place of config.pbtxt. @throws as `index` */
  load(model: string, config: string | undefined): Promise<void>;
  /** @throws as `index` */
  unload(model: string, dependents: boolean): Promise<void>;
  /** How the model's requests are spread. Sets it first, or clears it, where that is asked. @throws as `index` */
  traffic(model: string, change?: TrafficRuleJson | 'clear'): Promise<TrafficView>;
  /** The workers and what waits for them. @throws as `index` */
  pool(): Promise<PoolView>;
  /** Asks a worker to leave; says which one that is. @throws as `index` */
  drain(worker: string): Promise<{ readonly id: string; readonly name: string }>;
}

/** @throws InferError INVALID_ARGUMENT for a URL or a header that is none. */
export function createServerClient(settings: ServerSettings): ServerClient {
  const base = baseOf(settings.url);
  const headers = parseHeaders(settings.header);
  headers.set('content-type', 'application/json');
  const askAt = async (method: string, path: string, body?: object): Promise<unknown> => {
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    return readAnswer(base, await send(base, `${base}/${path}`, init, settings.timeoutSecs));
  };
  const ask = (method: string, path: string, body?: object) => askAt(method, `v2/${path}`, body);
  const post = async (path: string, body: object): Promise<unknown> => {
    return ask('POST', `repository/${path}`, body);
  };
  return {
    index: async () => readIndex(base, await post('index', {})),
    load: async (model, config) => {
      const parameters = config === undefined ? {} : { parameters: { config } };
      await post(`models/${encodeURIComponent(model)}/load`, parameters);
    },
    unload: async (model, dependents) => {
      const parameters = dependents ? { parameters: { unload_dependents: true } } : {};
      await post(`models/${encodeURIComponent(model)}/unload`, parameters);
    },
    traffic: async (model, change) => {
      const path = `models/${encodeURIComponent(model)}/traffic`;
      if (change === undefined) return readTraffic(base, await ask('GET', path));
      if (change === 'clear') return readTraffic(base, await ask('DELETE', path));
      return readTraffic(base, await ask('POST', path, change));
    },
    pool: async () => readPool(base, await askAt('GET', 'pool')),
    drain: async (worker) => readDrained(base, await askAt('POST', `pool/workers/${encodeURIComponent(worker)}/drain`)),
  };
}

function baseOf(text: string): string {
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (/^https?:/i.test(address) && URL.canParse(address)) return new URL(address).href.replace(/\/+$/, '');
  throw new InferError('INVALID_ARGUMENT', `--url expects an address like http://localhost:8000, got "${text}"`);
}

/** Options like `NAME=VALUE`. @throws InferError INVALID_ARGUMENT for what a header cannot hold */
export function parseHeaders(given: readonly string[]): Headers {
  const headers = new Headers();
  for (const text of given) {
    const [, name, value] = /^([^=:]+)[=:](.*)$/s.exec(text) ?? [];
    try {
      if (name === undefined || value === undefined) throw new TypeError('no value');
      headers.set(name.trim(), value.trim());
    } catch (error) {
      // The value may be a secret, so no message holds it.
      throw new InferError('INVALID_ARGUMENT', '--header expects NAME=VALUE as a header can hold it', { cause: error });
    }
  }
  return headers;
}

interface Answer {
  readonly ok: boolean;
  readonly status: number;
  readonly text: string;
}

interface Sent {
  readonly method: string;
  readonly headers: Headers;
  readonly body?: string;
}

async function send(base: string, url: string, init: Sent, timeoutSecs: number): Promise<Answer> {
  const signal = AbortSignal.timeout(timeoutSecs * 1000);
  try {
    const response = await fetch(url, { ...init, signal, redirect: 'error' });
    return { ok: response.ok, status: response.status, text: await response.text() };
  } catch (error) {
    throw new InferError('UNAVAILABLE', explainFailure(base, error, signal.aborted, timeoutSecs), { cause: error });
  }
}

function explainFailure(base: string, error: unknown, late: boolean, timeoutSecs: number): string {
  if (late) {
    return `no answer from ${base} within ${timeoutSecs} s (--timeout-secs); what it was asked for may still happen`;
  }
  const code = codeOf(error instanceof Error ? error.cause : undefined);
  if (code === 'ECONNREFUSED')
    return `no server at ${base}: nothing listens there; start one, or name another with --url`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `no server at ${base}: there is no host of that name`;
  if (code === 'ECONNRESET' || code === 'UND_ERR_SOCKET') return `${base} ended the connection without an answer`;
  const said = code || (error instanceof Error && error.cause instanceof Error ? error.cause.message : '');
  return `no answer from ${base}${said === '' ? '' : `: ${said}`}`;
}

function codeOf(cause: unknown): string {
  if (cause instanceof AggregateError) return codeOf(cause.errors[0]);
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}

/** The JSON of an answer; undefined for an empty one. */
function readAnswer(base: string, { ok, status, text }: Answer): unknown {
  let value: unknown;
  try {
    value = text === '' ? undefined : JSON.parse(text);
  } catch {
    if (ok)
      throw new InferError('UNAVAILABLE', `${base} answered something else than JSON; is it an inference server?`);
    // An error page of something in between: its status says enough.
  }
  if (ok) return value;
  const said = isObject(value) && typeof value['error'] === 'string' ? value['error'] : '';
  throw new InferError('UNAVAILABLE', said === '' ? `${base} answered with status ${status}` : said);
}

function readIndex(base: string, value: unknown): IndexRow[] {
  if (!Array.isArray(value)) throw new InferError('UNAVAILABLE', `${base} did not answer with a repository index`);
  return value.filter(isObject).map((row) => ({
    name: textOf(row['name']),
    version: textOf(row['version']),
    state: textOf(row['state']),
    reason: textOf(row['reason']),
  }));
}

function readTraffic(base: string, value: unknown): TrafficView {
  if (isObject(value) && Array.isArray(value['versions']) && Array.isArray(value['fallen'])) {
    return value as unknown as TrafficView; // the same program wrote it
  }
  throw new InferError('UNAVAILABLE', `${base} did not answer with the traffic of a model`);
}

function readPool(base: string, value: unknown): PoolView {
  if (isObject(value) && Array.isArray(value['workers']) && Array.isArray(value['models'])) {
    return value as unknown as PoolView; // the same program wrote it
  }
  throw new InferError('UNAVAILABLE', `${base} did not answer with a pool`);
}

function readDrained(base: string, value: unknown): { readonly id: string; readonly name: string } {
  if (isObject(value)) return { id: textOf(value['id']), name: textOf(value['name']) };
  throw new InferError('UNAVAILABLE', `${base} did not say which worker drains`);
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? shownText(String(value)) : '';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
