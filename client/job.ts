import { decodeAnswer, headerLengthOf, parseJson, recordOf, textOf } from './decode.ts';
import { readEvents } from './events.ts';
import { MillraceError } from './millrace-error.ts';
import type { Transport } from './transport.ts';
import type { CallOptions, InferResult, ModelType, OutputName, OutputsOf } from './types.ts';

export type JobState = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'expired';

/** A job as the server tells it. */
export interface JobStatus {
  readonly id: string;
  readonly model: string;
  readonly state: JobState;
  /** Jobs before it in line; undefined unless it waits for its turn. */
  readonly position: number | undefined;
  /** How often it was run, and how often it may be. */
  readonly attempts: { readonly made: number; readonly max: number };
  /** Why it ended, or why its last attempt failed. */
  readonly error: { readonly code: string; readonly status: number; readonly message: string } | undefined;
  readonly createdAt: Date;
  /** Until when job and answer are kept; undefined while it is not over. */
  readonly keptUntil: Date | undefined;
}

/** Of one request; the server answers within it, and then it is made again. */
const WAIT_SECONDS = 20;

/** A job that was enqueued, by this process or another. */
export class Job<M extends ModelType = ModelType, O extends OutputName<M> = OutputName<M>> {
  readonly id: string;
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, id: string) {
    this.#transport = transport;
    this.id = id;
    this.#path = `/jobs/${encodeURIComponent(id)}`;
  }

  /** @throws MillraceError with status 404 for a job that never was or is not kept any more */
  async status(options: CallOptions = {}): Promise<JobStatus> {
    const answer = await this.#transport.call({ method: 'GET', path: this.#path, ...options, repeatable: true });
    return readJobStatus(parseJson(answer.body));
  }

  /**
   * Waits for the answer, however long the job takes unless `timeoutMs` says otherwise. May be called again, and by others.
   * @throws MillraceError with what infer would have said for a job that failed, 410 for one that was cancelled, 404 for
   * one that is not kept, 0 when the time was over
   */
  async result({ signal, timeoutMs = Infinity }: CallOptions = {}): Promise<InferResult<M, O>> {
    const endMs = performance.now() + timeoutMs;
    for (;;) {
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) throw new MillraceError(`the job '${this.id}' was not over within ${timeoutMs} ms`);
      const waitMs = Math.min(WAIT_SECONDS * 1000, leftMs);
      const path = `${this.#path}/result?wait=${Math.ceil(waitMs)}ms`;
      const call = { method: 'GET', path, signal, timeoutMs: waitMs + 30_000, repeatable: true };
      const { status, headers, body } = await this.#transport.call(call);
      if (status === 202) continue;
      const decoded = decodeAnswer(body, headerLengthOf(headers));
      return { ...decoded, outputs: decoded.outputs as OutputsOf<M, O> }; // as the server's model has them
    }
  }

  /**
   * The job as it is, then each change of its state or place in line, last its end. Ends early, without an error, when the
   * server closes: ask for `status` then, or follow again.
   * @throws MillraceError as `status`
   */
  async *events({ signal, timeoutMs = Infinity }: CallOptions = {}): AsyncGenerator<JobStatus, void, undefined> {
    const path = `${this.#path}/events`;
    const stream = await this.#transport.stream({ method: 'GET', path, signal, timeoutMs, repeatable: true });
    for await (const data of readEvents(stream, SILENCE_MS))
      yield readJobStatus(parseJson(new TextEncoder().encode(data)));
  }

  /** Ends the job. @throws MillraceError with status 409 when it was over before, 404 as `status` */
  async cancel(options: CallOptions = {}): Promise<JobStatus> {
    const answer = await this.#transport.call({ method: 'DELETE', path: this.#path, ...options, repeatable: false });
    return readJobStatus(parseJson(answer.body));
  }
}

/** The server sends a comment every 15 s, so a line that is silent for longer is dead. */
const SILENCE_MS = 45_000;

export function readJobStatus(json: Readonly<Record<string, unknown>>): JobStatus {
  const { id, model, state, position, attempts, error, created_at: created, kept_until: kept } = json;
  const { made, max } = recordOf(attempts);
  const { code, status, message } = recordOf(error);
  return {
    id: textOf(id),
    model: textOf(model),
    state: textOf(state) as JobState, // the server's own words
    position: typeof position === 'number' ? position : undefined,
    attempts: { made: Number(made), max: Number(max) },
    error: error ? { code: textOf(code), status: Number(status), message: textOf(message) } : undefined,
    createdAt: new Date(textOf(created)),
    keptUntil: typeof kept === 'string' ? new Date(kept) : undefined,
  };
}
