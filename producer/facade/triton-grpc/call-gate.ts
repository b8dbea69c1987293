import type { Http2Server, IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { ServerInterceptingCall, ServerInterceptor } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import { ChurnSet } from '../../../shared/runtime/churn.ts';
import type { ApiCategory, Restrictions } from '../../service/restricted-access.ts';
import type { Tenants } from '../../service/tenants/tenants.ts';
import type { WireMessage } from './calls.ts';
import { FrameDecoder } from './frame-decoder.ts';
import type { CompressionLevel } from './grpc-settings.ts';
import { type AnswerCompression, type Arrival, type CallLimits, GuardedCall } from './guarded-call.ts';

export interface GateOptions {
  readonly limits: CallLimits;
  readonly maxOpenCalls: number;
  readonly restrictions: Restrictions;
  /** Whose keys open everything but health; undefined where calls need none. */
  readonly tenants: Tenants | undefined;
  /** By the path of a method. */
  readonly categoryOf: (path: string) => ApiCategory;
  readonly compression: CompressionLevel;
}

const RESTRICTED_PREFIX = 'triton-grpc-protocol-';

/** The longest time that setTimeout can count, in ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Who may come in, and who is inside. grpc-js shows an interceptor neither the stream nor what it takes out of the
 * headers, so the gate looks at both just before grpc-js does; both then run in the same turn for the same stream.
 */
export class CallGate {
  readonly #options: GateOptions;
  readonly #open = new ChurnSet<GuardedCall>();
  /** Answered, and their clients have not ended their side yet. */
  readonly #refused = new ChurnSet<GuardedCall>();
  #arriving: Omit<Arrival, 'takesMany'> | undefined;
  #draining = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  get openCalls(): number {
    return this.#open.size;
  }

  /** To be called once for the HTTP/2 server under grpc-js, before it takes connections. */
  attach(server: Http2Server): void {
    server.prependListener('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      const encoding = takeHeader(headers, 'grpc-encoding');
      dropEndlessTimeout(headers);
      this.#arriving = { stream, headers, encoding };
    });
  }

  readonly intercept: ServerInterceptor = ({ path, requestStream, responseSerialize }, base) => {
    const arriving = this.#arriving;
    this.#arriving = undefined;
    if (!arriving) throw new InferError('INTERNAL', 'a call came past the gate');
    const { limits, categoryOf } = this.#options;
    const category = categoryOf(path);
    replaceDecoder(base, limits.maxMessageBytes, category === 'inference');
    const compression = this.#compressionFor(category, arriving.headers, responseSerialize);
    const call = new GuardedCall(base, { ...arriving, takesMany: requestStream }, limits, compression);
    const refusal = this.#refusalOf(category, arriving.headers);
    if (refusal) {
      this.#refused.add(call);
      call.refuse(refusal);
    } else {
      this.#open.add(call);
    }
    call.watch();
    arriving.stream.once('close', () => {
      this.#refused.delete(call);
      this.#open.delete(call);
      if (this.#open.size === 0) this.#onEmpty?.();
    });
    return call as unknown as ServerInterceptingCall; // grpc-js uses the interface; its type names the class
  };

  /** From now on new calls are refused and streams take no more requests. Resolves when no call is open. */
  drain(): Promise<void> {
    this.#draining = true;
    for (const call of this.#open) call.endRequests();
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#onEmpty = resolve));
  }

  /** To be called every few seconds. */
  endStalledCalls(): void {
    for (const call of this.#open) call.endIfStalled();
    for (const call of this.#refused) call.endIfStalled();
  }

  #refusalOf(category: ApiCategory, headers: IncomingHttpHeaders): InferError | undefined {
    const { restrictions, maxOpenCalls } = this.#options;
    if (this.#draining) return new InferError('UNAVAILABLE', 'the server is shutting down');
    if (!restrictions.allows(category, (key) => textOf(headers[RESTRICTED_PREFIX + key]))) {
      const key = RESTRICTED_PREFIX + (restrictions.keyOf(category) ?? '');
      return new InferError(
        'UNAVAILABLE',
        `This protocol is restricted: ${category} needs the metadata ${key} with its value`,
      );
    }
    const unknown = category === 'health' ? undefined : this.#keyProblem(headers);
    if (unknown) return unknown;
    if (this.#open.size < maxOpenCalls) return undefined;
    return new InferError(
      'RESOURCE_EXHAUSTED',
      `the server is busy: ${this.#open.size} of ${maxOpenCalls} calls are open; try again later`,
    );
  }

  #keyProblem(headers: IncomingHttpHeaders): InferError | undefined {
    try {
      this.#options.tenants?.identify((name) => textOf(headers[name]));
      return undefined;
    } catch (error) {
      return InferError.from(error);
    }
  }

  #compressionFor(
    category: ApiCategory,
    headers: IncomingHttpHeaders,
    serialize: (answer: unknown) => WireMessage,
  ): AnswerCompression | undefined {
    const { compression: level } = this.#options;
    if (level === 'none' || category !== 'inference') return undefined;
    const accepted = textOf(headers['grpc-accept-encoding']) ?? '';
    return /(?:^|[\s,])gzip(?:[\s,]|$)/.test(accepted) ? { level, serialize } : undefined;
  }
}

/** It is private to grpc-js; a version that keeps it elsewhere goes on with its own. */
function replaceDecoder(base: unknown, maxMessageBytes: number, inPieces: boolean): void {
  const call = base as { decoder?: unknown };
  if (call.decoder !== undefined) call.decoder = new FrameDecoder(maxMessageBytes, inPieces);
}

function takeHeader(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = textOf(headers[name]);
  // The object of headers belongs to this one stream.
  Reflect.deleteProperty(headers, name);
  return value;
}

/** grpc-js lets a timeout that its timer cannot count end the call at once; so long a one is none. */
function dropEndlessTimeout(headers: IncomingHttpHeaders): void {
  const text = textOf(headers['grpc-timeout']);
  const [, digits, unit] = /^(\d{1,8})\s*([HMSmun])$/.exec(text ?? '') ?? [];
  if (digits === undefined || unit === undefined) return;
  if (Number(digits) * (UNITS_MS[unit] ?? 1) > MAX_TIMER_MS) Reflect.deleteProperty(headers, 'grpc-timeout');
}

function textOf(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
