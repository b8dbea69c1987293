import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { assertRequestFits } from '../../../shared/infer/validate-request.ts';
import { isOver, type JobRecord, type JobState, type WebhookProgress } from '../../../shared/jobs/job.ts';
import { sequenceIdleMs } from '../../../shared/model/sequence-routing.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import type { Traffic } from '../traffic/traffic.ts';
import { WebhookPolicy } from '../webhooks/webhook-policy.ts';
import { assertJobSettings } from './job-settings.ts';
import {
  type AddedJob,
  type Idempotency,
  IdempotencyConflict,
  type JobListener,
  type JobPage,
  type JobQuery,
  type JobStore,
  type NewJob,
} from './job-store.ts';

/** A job as it is now. */
export interface JobView {
  readonly record: JobRecord;
  /** What stands in line before it, for one that waits for its turn. */
  readonly position: number | undefined;
}

export interface JobsOptions {
  readonly store: JobStore;
  readonly catalog: ModelCatalog;
  readonly traffic: Pick<Traffic, 'assign'>;
  /** Lets a submission in, or throws why not; all come in unless given. */
  readonly admit?: <T>(job: NewJob, take: () => Promise<T>) => Promise<T>;
  /** Without it no job may have a webhook. */
  readonly webhooks?: WebhookPolicy | undefined;
  readonly clock: Clock;
}

/** Who waits for a change of a job: called with each, and when the server closes. */
type Watcher = () => void;

/** Requests that wait for a job, and streams, in this process; each costs little, but not nothing. */
const MAX_WATCHERS = 10_000;
/** Changes are told as they happen; in case that fails, a waiting request looks itself so often, in ms. */
const LOOK_MS = 2000;
/** How often a stream looks where its job stands in line, in ms. */
const POSITION_MS = 1000;

/**
 * Requests that nobody holds a connection for: submitted, asked about, awaited, cancelled. Knows no protocol; facades,
 * and whoever wants to be told of each job that ends, work with this.
 */
export class Jobs {
  readonly #options: JobsOptions;
  readonly #watchers = new Map<string, Set<Watcher>>();
  readonly #stopListening: () => void;
  #watching = 0;
  #closed = false;

  constructor(options: JobsOptions) {
    this.#options = options;
    this.#stopListening = options.store.onChange((id) => {
      for (const watcher of this.#watchers.get(id) ?? []) watcher();
    });
  }

  /**
   * Takes a job. Resolves when it is safe in the store; with one that is there already when the key stands for it.
   * @throws InferError for a request that would be refused at once, and as the store does
   */
  async submit(job: NewJob): Promise<AddedJob> {
    if (this.#closed) throw new InferError('UNAVAILABLE', 'the server is shutting down');
    const { store, admit } = this.#options;
    try {
      const checked = this.#check(job);
      return await (admit ? admit(checked, () => store.add(checked)) : store.add(checked));
    } catch (error) {
      // Where the store cannot be reached there is nothing to find.
      if (error instanceof IdempotencyConflict || InferError.from(error).code === 'UNAVAILABLE') throw error;
      // What was taken before stays taken, also when its model has gone or its tenant has sent enough.
      const record = await this.find(job.idempotency);
      if (record) return { record, created: false };
      throw error;
    }
  }

  /**
   * The job that a key stands for already; undefined when there is none, or nobody can say.
   * @throws IdempotencyConflict when it is that of something else
   */
  async find(idempotency: Idempotency | undefined): Promise<JobRecord | undefined> {
    if (!idempotency) return undefined;
    try {
      return await this.#options.store.find(idempotency);
    } catch (error) {
      if (error instanceof IdempotencyConflict) throw error;
      return undefined;
    }
  }

  /** @throws InferError NOT_FOUND for a job that never was or is not kept any more. */
  async get(id: string): Promise<JobView> {
    return this.#view(await this.#read(id));
  }

  /**
   * Resolves when the job is over, or as it is after `waitMs`, or when the server closes, or when `hungUp` says that nobody
   * waits any more.
   * @throws InferError NOT_FOUND as `get`, RESOURCE_EXHAUSTED when too many wait
   */
  async wait(id: string, waitMs: number, hungUp?: Promise<void>): Promise<JobView> {
    const endMs = this.#options.clock.now() + waitMs;
    let record = await this.#read(id);
    if (waitMs <= 0 || isOver(record.state)) return this.#view(record);
    const changes = this.#watch(id);
    void hungUp?.then(() => changes.leave());
    try {
      for (;;) {
        // Looked at again after the watch began: it may have changed in between.
        record = await this.#read(id);
        const leftMs = endMs - this.#options.clock.now();
        if (isOver(record.state) || leftMs <= 0 || changes.left || this.#closed) break;
        await changes.next(Math.max(1, Math.min(LOOK_MS, leftMs)));
      }
    } finally {
      changes.end();
    }
    return this.#view(record);
  }

  /**
   * Calls back with the job as it is, then with each change of its state or its place in line, last with its end. The
   * answer resolves behind the last call: when the job is over or gone, the server closes, or `hungUp` settles.
   * @throws InferError NOT_FOUND as `get`, RESOURCE_EXHAUSTED when too many wait
   */
  async follow(id: string, tell: (view: JobView) => void, hungUp: Promise<void>): Promise<void> {
    await this.#read(id);
    const changes = this.#watch(id);
    void hungUp.then(() => changes.leave());
    const told = { state: undefined as JobState | undefined, runs: -1, position: undefined as number | undefined };
    try {
      for (;;) {
        const record = await this.#options.store.read(id);
        if (!record || changes.left) return;
        const { position } = await this.#view(record);
        if (record.state !== told.state || record.runs !== told.runs || position !== told.position) {
          Object.assign(told, { state: record.state, runs: record.runs, position });
          tell({ record, position });
        }
        if (isOver(record.state) || this.#closed) return;
        const lookMs = record.state === 'queued' ? POSITION_MS : LOOK_MS;
        await changes.next(lookMs);
      }
    } finally {
      changes.end();
    }
  }

  /**
   * The answer of a job that succeeded.
   * @throws InferError NOT_FOUND when it is not kept any more
   */
  async result(id: string): Promise<InferResponse> {
    const response = await this.#options.store.result(id);
    if (!response) throw unknownJob(id);
    return response;
  }

  /**
   * Ends a job that is not over: one that waits never runs, one that runs is not answered. `cancelled` is false when it
   * was over before.
   * @throws InferError NOT_FOUND as `get`
   */
  async cancel(id: string): Promise<{ readonly view: JobView; readonly cancelled: boolean }> {
    const cancelled = await this.#options.store.cancel(id);
    return { view: await this.get(id), cancelled };
  }

  /** How far the webhook of a job is. */
  noteWebhook(id: string, progress: WebhookProgress): Promise<void> {
    return this.#options.store.noteWebhook(id, progress);
  }

  list(query: JobQuery): Promise<JobPage> {
    return this.#options.store.list(query);
  }

  /**
   * Calls back for each job of the store that ends, whoever submitted or ran it: in a pool every producer is told of every
   * job. The answer ends it.
   */
  onEnd(listener: JobListener): () => void {
    return this.#options.store.onChange((id, state) => {
      if (isOver(state)) listener(id, state);
    });
  }

  /** Lets everybody who waits go, with the job as it is. */
  release(): void {
    this.#closed = true;
    for (const watchers of this.#watchers.values()) for (const watcher of watchers) watcher();
  }

  async close(): Promise<void> {
    this.release();
    this.#stopListening();
    await this.#options.store.close();
  }

  #check(job: NewJob): NewJob {
    const { catalog, traffic, webhooks = new WebhookPolicy(undefined) } = this.#options;
    assertJobSettings(job.settings);
    if (job.webhook !== undefined) webhooks.assertUsable(job.webhook);
    const model = catalog.resolve(job.request.model, job.request.version);
    assertRequestFits(model, job.request);
    assertNoSequence(catalog, job.request);
    const version = job.request.version === '' ? traffic.assign(job.request) : '';
    return version === '' ? job : { ...job, request: { ...job.request, version } };
  }

  async #read(id: string): Promise<JobRecord> {
    const record = await this.#options.store.read(id);
    if (!record) throw unknownJob(id);
    return record;
  }

  async #view(record: JobRecord): Promise<JobView> {
    const position = record.state === 'queued' ? await this.#options.store.position(record) : undefined;
    return { record, position };
  }

  #watch(id: string): Changes {
    if (this.#watching >= MAX_WATCHERS) {
      const text = `${this.#watching} requests wait for jobs already, no more are taken; ask without waiting`;
      throw new InferError('RESOURCE_EXHAUSTED', text);
    }
    this.#watching += 1;
    const changes = new Changes(this.#options.clock);
    const watcher: Watcher = () => changes.notify();
    const watchers = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, watchers.add(watcher));
    changes.onEnd = () => {
      this.#watching -= 1;
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id);
    };
    return changes;
  }
}

/** What happens to one job, for one who waits: nothing is missed between two calls of `next`. */
class Changes {
  readonly #clock: Clock;
  #due = false;
  #wake: (() => void) | undefined;
  #left = false;
  onEnd: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Nobody waits any more. */
  get left(): boolean {
    return this.#left;
  }

  leave(): void {
    this.#left = true;
    this.notify();
  }

  notify(): void {
    this.#due = true;
    this.#wake?.();
  }

  /** Resolves at the next change, at once when there was one, or after `ms`. */
  async next(ms: number): Promise<void> {
    if (!this.#due) {
      await new Promise<void>((resolve) => {
        const cancelTimer = this.#clock.setTimer(resolve, ms);
        this.#wake = () => {
          cancelTimer();
          resolve();
        };
      });
      this.#wake = undefined;
    }
    this.#due = false;
  }

  end(): void {
    this.onEnd();
  }
}

export function unknownJob(id: string): InferError {
  return new InferError('NOT_FOUND', `job '${shownText(id)}' is not known: it never was, or is not kept any more`);
}

/** The requests of a sequence belong to one worker and one order; a job belongs to none. */
function assertNoSequence(catalog: ModelCatalog, { model, version }: InferRequest): void {
  const find = (name: string, of: string) => {
    try {
      return catalog.resolve(name, of).config;
    } catch {
      return undefined; // not ready, which its ensemble says itself
    }
  };
  const config = find(model, version);
  if (!config || sequenceIdleMs(config, find) === undefined) return;
  throw new InferError('INVALID_ARGUMENT', `model ${model}: requests of sequences cannot be jobs, call infer`);
}
