import { DelayedError, type Job, UnrecoverableError, WaitingError, Worker } from 'bullmq';
import { InferError } from '../../shared/errors.ts';
import { RunPace } from '../../shared/infer/run-pace.ts';
import { ChurnMap } from '../../shared/runtime/churn.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { isJobId, stateOfError } from '../../shared/jobs/job.ts';
import { type DecodedBundle, type JobPart, payloadKeys } from '../../shared/wire/job.ts';
import { QUEUE_PREFIX, queueName } from '../../shared/wire/names.ts';
import { KEEP_COMPLETED, KEEP_FAILED } from '../../shared/wire/queue-options.ts';
import { decodeJob, keepItemsSigned } from '../../shared/wire/signed-job.ts';
import { fetchConcurrency, type FetchLimits, rowsToHold } from './fetch-policy.ts';
import { Backlog } from './backlog.ts';
import type { JobRecords } from './job-records.ts';
import { PayloadRemover } from './payload-remover.ts';
import { markUnreadableJobs } from './unreadable-jobs.ts';
import { type BundleContext, type BundleOutcome, leftBehind, runBundle } from './run-bundle.ts';
import { runJob } from './run-job.ts';
import { SeenJobs } from './seen-jobs.ts';

export interface ModelConsumerOptions extends Omit<BundleContext, 'draining' | 'own' | 'pace'> {
  readonly model: string;
  /** Takes what is for this version alone; '' for the queue of the model. */
  readonly version: string;
  /** The id of this worker where the queue is its own; '' for one that others take from too. */
  readonly worker: string;
  readonly limits: FetchLimits;
  /** Where jobs of the Jobs API are answered. */
  readonly records: JobRecords;
  /** Rows count against the limits when the model has a batch dimension. */
  readonly batched: boolean;
  /** Runs that may be under way at once. With one, a next bundle need not be at hand for what runs. */
  readonly slots: number;
  /** Requests run in the order of their arrival, so that no more in hand is of use than what runs next. Not for ensembles. */
  readonly inOrder: boolean;
  /** Shown on the dashboard beside each job. */
  readonly workerName: string;
  readonly logger: Logger;
}

/** Lease of a job, independent of how long it runs: it is renewed while the process lives. */
const LOCK_MS = 10_000;
const STALLED_CHECK_MS = 2500;
const MAX_STALLED = 3;
const DRAIN_DELAY_SECONDS = 5;
/** What others take from as well is theirs when this worker is lost. */
const RECOVERY = { lockDuration: LOCK_MS, stalledInterval: STALLED_CHECK_MS, maxStalledCount: MAX_STALLED };
/** What is for this worker alone must not run twice, and goes with it. */
const NO_RECOVERY = { lockDuration: 3_600_000, skipStalledCheck: true };
/** From this recovery on the requests of a bundle run one by one, so that the one that kills workers is found. */
const ISOLATE_FROM_STALLED = 2;

/** The job carries nothing that could be run; whoever could be answered was. */
class RefusedJob extends UnrecoverableError {}

/** Nobody can be answered: the data are wrong, or not signed. */
class UnreadableJob extends RefusedJob {
  readonly reason: InferError;

  constructor(reason: InferError) {
    super(reason.message);
    this.reason = reason;
  }
}

/** A bundle in hand. */
interface HeldBundle {
  readonly rows: number;
  readonly bytes: number;
  readonly keys: readonly string[];
  readonly sinceMs: number;
  /** It is a job of the Jobs API: accepted, and perhaps to run again, so its tensors stay until it is over. */
  readonly forJob: boolean;
  /** Its tensors are in this process. */
  read: boolean;
}

/** Takes the jobs of one model from its queue, as many as it can use, and sees each through to the end. */
export class ModelConsumer {
  readonly #options: ModelConsumerOptions;
  readonly #context: BundleContext;
  readonly #held = new ChurnMap<string, HeldBundle>();
  /** Of the jobs that ended just now and whose end is being written. */
  readonly #ending = new WeakMap<Job, HeldBundle>();
  readonly #backlog = new Backlog();
  readonly #pace = new RunPace();
  readonly #remover: PayloadRemover;
  readonly #queue: string;
  readonly #seen = new SeenJobs();
  #worker: Worker | undefined;
  #draining = false;
  #rows = 0;
  #bytes = 0;
  /** Moving average of rows a bundle. */
  #meanRows = 1;
  #lastJobMs: number | undefined;

  constructor(options: ModelConsumerOptions) {
    this.#options = options;
    this.#context = { ...options, draining: () => this.#draining, own: options.worker !== '', pace: this.#pace };
    this.#remover = new PayloadRemover(options.redis, options.logger);
    this.#queue = queueName(options.model, options.version, options.worker);
  }

  start(): void {
    const { model, worker: own, redis, workerName, logger } = this.#options;
    const worker = new Worker(this.#queue, (job, token) => this.#processQuietly(job, token), {
      connection: redis,
      prefix: QUEUE_PREFIX,
      name: workerName,
      concurrency: this.#concurrency(),
      ...(own === '' ? RECOVERY : NO_RECOVERY),
      drainDelay: DRAIN_DELAY_SECONDS,
      removeOnComplete: KEEP_COMPLETED,
      removeOnFail: KEEP_FAILED,
    });
    worker.on('error', (error) => this.#onError(worker, error));
    worker.on('stalled', (id) => logger.warn({ model, job: id }, 'job of a lost worker taken over'));
    worker.on('completed', (job) => {
      this.#backlog.noteCompleted(performance.now());
      const ended = this.#ending.get(job);
      if (ended) this.#remover.soon(ended.keys, ended.bytes);
    });
    worker.on('failed', (job, error) => {
      if (job) void this.#onFailed(job, error);
    });
    this.#worker = worker;
  }

  /** From now on what comes is told that the worker has left. For a queue of its own, to which some is still on its way. */
  leaveBehind(): void {
    this.#draining = true;
  }

  /** Takes nothing more. What was fetched and not started goes back, here and in whatever still arrives. */
  async drain(): Promise<void> {
    this.#draining = true;
    await this.#worker?.pause(true);
  }

  /** After `drain`: waits for what runs, then closes. */
  async close(): Promise<void> {
    await this.#worker?.close();
    this.#remover.flush();
  }

  get model(): string {
    return this.#options.model;
  }

  /** Rows in hand, and when it last took or answered a job, on `performance.now()`; undefined before the first. */
  get activity(): { readonly rows: number; readonly lastJobMs: number | undefined } {
    return { rows: this.#rows, lastJobMs: this.#held.size > 0 ? performance.now() : this.#lastJobMs };
  }

  /** Frees the memory of tensors that have been read already, because answers find no room in Redis. */
  freePayloads(): void {
    for (const { keys, forJob, read } of this.#held.values()) if (read && !forJob) this.#remover.now(keys);
  }

  /** BullMQ writes the stack of whatever is thrown into the job, and with it paths of this machine. */
  async #processQuietly(job: Job<unknown>, token: string | undefined): Promise<object> {
    try {
      return await this.#process(job, token);
    } catch (error) {
      if (error instanceof Error) error.stack = '';
      throw error;
    }
  }

  async #process(job: Job<unknown>, token: string | undefined): Promise<object> {
    if (this.#draining && !this.#context.own) return this.#giveBack(job, token);
    const bundle = this.#decode(job);
    if (bundle.job) return this.#processJob(job, { ...bundle, job: bundle.job }, token);
    const held = this.#hold(job, bundle);
    let outcome: BundleOutcome;
    try {
      const isolate = job.stalledCounter >= ISOLATE_FROM_STALLED && bundle.items.length > 1;
      outcome = isolate ? await this.#runOneByOne(job, bundle) : await runBundle(this.#context, bundle, held);
    } finally {
      this.#release(job, held);
    }
    if (outcome.unstarted.size > 0) {
      if (outcome.unstarted.size < bundle.items.length) await this.#shrink(job, bundle, outcome.unstarted);
      return this.#giveBack(job, token);
    }
    this.#ending.set(job, held);
    const { succeeded, failed, dropped, refused, firstRefusal, firstFailure = firstRefusal } = outcome;
    if (firstRefusal && succeeded + failed + dropped === 0) throw refusedJob(firstRefusal);
    const counts = { succeeded, failed, dropped, refused };
    return firstFailure ? { ...counts, firstError: `${firstFailure.code}: ${firstFailure.message}` } : counts;
  }

  /** A job of the Jobs API. Its attempts are those of its one request, so it fails as a job when its request does. */
  async #processJob(
    job: Job<unknown>,
    bundle: DecodedBundle & { readonly job: JobPart },
    token: string | undefined,
  ): Promise<object> {
    const held = this.#hold(job, bundle);
    const { attemptsMade, attemptsStarted, stalledCounter } = job;
    const tries = {
      attempt: attemptsMade + 1,
      maxAttempts: job.opts.attempts ?? 1,
      bounces: Math.max(0, attemptsStarted - attemptsMade - stalledCounter - 1),
    };
    let end;
    try {
      end = await runJob(this.#context, this.#options.records, bundle, tries);
    } finally {
      this.#release(job, held);
    }
    switch (end.kind) {
      case 'back':
        return this.#giveBack(job, token);
      case 'elsewhere':
        await job.moveToDelayed(Date.now() + end.delayMs, token);
        throw new DelayedError();
      case 'again':
        throw new Error(end.error.message);
      case 'over':
        if (end.error) throw refusedJob(end.error);
        this.#ending.set(job, held);
        return {};
    }
  }

  #decode(job: Job<unknown>): DecodedBundle {
    const { model, keys, link } = this.#options;
    let bundle: DecodedBundle;
    try {
      bundle = decodeJob(job.data, model, this.#queue, keys);
      if (bundle.digests && this.#context.own) this.#seen.add(bundle, link.now());
    } catch (error) {
      throw new UnreadableJob(InferError.from(error));
    }
    return bundle;
  }

  /**
   * Each request runs alone, and before it does it moves to the end of the job: when it kills this worker too, the next
   * run begins with the others, and in the end only the guilty one is left to fail.
   */
  async #runOneByOne(job: Job<unknown>, bundle: DecodedBundle): Promise<BundleOutcome> {
    const total: BundleOutcome = { ...(await runBundle(this.#context, { ...bundle, items: [] })) };
    const rest = [...bundle.items];
    for (let item = rest.shift(); item; item = rest.shift()) {
      const order = [...rest, item].map((entry) => entry.sequence);
      await job.updateData(this.#keep(job, order));
      const { succeeded, failed, dropped, refused, firstRefusal, firstFailure, unstarted } = await runBundle(
        this.#context,
        {
          ...bundle,
          items: [item],
          refused: [],
        },
      );
      total.succeeded += succeeded;
      total.failed += failed;
      total.dropped += dropped;
      total.refused += refused;
      total.firstRefusal ??= firstRefusal;
      total.firstFailure ??= firstFailure;
      for (const sequence of unstarted) total.unstarted.add(sequence);
    }
    return total;
  }

  /** Leaves only the unanswered requests in the job, and only their tensors in Redis. */
  async #shrink(job: Job<unknown>, bundle: DecodedBundle, unstarted: ReadonlySet<number>): Promise<void> {
    await job.updateData(this.#keep(job, [...unstarted]));
    const kept = new Set(payloadKeys(bundle.items.filter((item) => unstarted.has(item.sequence))));
    this.#remover.now(payloadKeys(bundle.items).filter((key) => !kept.has(key)));
  }

  #keep(job: Job<unknown>, sequences: readonly number[]): object {
    return keepItemsSigned(job.data, sequences, this.#queue, this.#options.keys);
  }

  async #giveBack(job: Job<unknown>, token: string | undefined): Promise<never> {
    await job.moveToWait(token);
    throw new WaitingError();
  }

  #hold(job: Job<unknown>, { items, job: part }: DecodedBundle): HeldBundle {
    let rows = 0;
    let bytes = 0;
    for (const { inputs } of items) {
      rows += this.#options.batched ? (inputs[0]?.header.shape[0] ?? 1) : 1;
      for (const { header } of inputs) bytes += header.byteLength;
    }
    const forJob = part !== undefined;
    const held = { rows, bytes, keys: payloadKeys(items), sinceMs: performance.now(), forJob, read: false };
    this.#backlog.noteStart(items.length, held.sinceMs);
    this.#held.set(job.id ?? '', held);
    this.#rows += rows;
    this.#bytes += bytes;
    this.#meanRows = this.#meanRows * 0.8 + rows * 0.2;
    this.#tune();
    return held;
  }

  #release(job: Job<unknown>, held: HeldBundle): void {
    this.#held.delete(job.id ?? '');
    this.#rows -= held.rows;
    this.#bytes -= held.bytes;
    this.#lastJobMs = performance.now();
    this.#backlog.noteAnswered(this.#lastJobMs - held.sinceMs);
    this.#tune();
  }

  #tune(): void {
    if (this.#worker) this.#worker.concurrency = this.#concurrency();
  }

  #concurrency(): number {
    const inHand = { bundles: this.#held.size, rows: this.#rows, bytes: this.#bytes };
    const { inOrder, slots, limits } = this.#options;
    if (!inOrder) return fetchConcurrency(inHand, this.#meanRows, limits);
    if (slots === 1 && !this.#backlog.likely(performance.now())) return Math.max(1, inHand.bundles);
    const targetRows = rowsToHold(this.#pace, slots, limits.targetRows);
    return fetchConcurrency(inHand, this.#meanRows, { ...limits, targetRows });
  }

  #onError(worker: Worker, error: Error): void {
    const { model, redis, logger } = this.#options;
    logger.warn({ model, error: error.message }, 'queue worker error');
    // What BullMQ throws at a job that it cannot parse: text that is not JSON, or `null` for options.
    if (!(error instanceof SyntaxError || error instanceof TypeError)) return;
    markUnreadableJobs(worker, redis).then(
      (jobs) => logger.warn({ model, jobs }, 'unreadable jobs marked'),
      (cause: unknown) => logger.warn({ model, error: String(cause) }, 'unreadable jobs not marked'),
    );
  }

  /** A job that failed for good must not leave anybody waiting. */
  async #onFailed(job: Job<unknown>, error: Error): Promise<void> {
    const { model, logger, replies, keys } = this.#options;
    if (job.finishedOn === undefined) return;
    logger.warn({ model, job: job.id, reason: error.message }, 'job failed');
    if (error instanceof UnreadableJob) {
      await this.#failUnreadable(job, error.reason);
      return;
    }
    let bundle: DecodedBundle;
    try {
      bundle = decodeJob(job.data, model, this.#queue, keys);
    } catch (cause) {
      await this.#failUnreadable(job, InferError.from(cause));
      return;
    }
    const stalled = job.stalledCounter > MAX_STALLED;
    const failure = stalled
      ? new InferError('INTERNAL', `given up: ${job.stalledCounter} workers were lost while they ran the request`)
      : new InferError('UNAVAILABLE', 'the worker could not reach its queue to run the request', { cause: error });
    try {
      if (bundle.job) {
        // The first answer counts: a run that ended by itself has written its own.
        await this.#options.records.finish(bundle.job.id, { state: stateOfError(failure), error: failure });
      } else if (!(error instanceof RefusedJob)) {
        await Promise.all(
          bundle.items.map((item) => {
            const error = this.#context.own ? leftBehind(item) : failure;
            return replies.send(bundle.producer, { sequence: item.sequence, error });
          }),
        );
      }
      this.#remover.now(payloadKeys(bundle.items));
    } catch (cause) {
      logger.warn({ model, job: job.id, error: String(cause) }, 'failure not published');
    }
  }

  /** The data do not say who asked; but a job of the Jobs API has the id of its record. */
  async #failUnreadable({ id }: Job<unknown>, error: InferError): Promise<void> {
    if (!isJobId(id)) return;
    try {
      await this.#options.records.finish(id, { state: 'failed', error });
    } catch (cause) {
      this.#options.logger.warn({ job: id, error: String(cause) }, 'failure not published');
    }
  }
}

function refusedJob(error: InferError): RefusedJob {
  return new RefusedJob(`${error.code}: ${error.message}`);
}
