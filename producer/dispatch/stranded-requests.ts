import { InferError } from '../../shared/errors.ts';
import { NotServed } from '../../shared/infer/not-served.ts';
import { sequenceLost, sequencePartOf } from '../../shared/infer/sequence.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Reply } from '../../shared/wire/reply.ts';
import type { CatalogFeed } from './catalog-feed.ts';
import { findLostRequests } from './lost-jobs.ts';
import type { ModelLanes } from './model-lanes.ts';
import type { ModelQueues } from './model-queues.ts';
import type { PendingRequest, PendingRequests } from './pending-requests.ts';
import type { SequenceLines } from './sequence-lines.ts';
import { takeUnloadedRequests } from './unloaded-requests.ts';
import type { VersionQueues } from './version-queues.ts';

export interface StrandedRequestsOptions {
  readonly pending: PendingRequests;
  readonly lanes: ModelLanes;
  readonly sequences: SequenceLines;
  readonly queues: ModelQueues;
  readonly versionQueues: VersionQueues;
  readonly feed: CatalogFeed;
  readonly producer: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How often a request goes to another worker when the one that got it has just unloaded its model. */
const MAX_RESENDS = 5;
const FIRST_RESEND_MS = 50;

/** Requests that no worker runs where they are: they are sent again, or whoever waits for them is told. */
export class StrandedRequests {
  readonly #options: StrandedRequestsOptions;
  #refusing = false;

  constructor(options: StrandedRequestsOptions) {
    this.#options = options;
  }

  /** Nothing that is not in Redis yet can get there now. What is there keeps waiting for its answer. */
  failUnqueued(reason: string): void {
    const { pending, lanes } = this.#options;
    for (const request of [...pending.values()]) {
      if (!request.queued) pending.fail(request.sequence, new InferError('UNAVAILABLE', reason));
    }
    lanes.wake();
  }

  /** Redis came back as another process; what it has lost is sent again while somebody waits for it. */
  async resendLost(): Promise<void> {
    const { pending, queues, producer, logger } = this.#options;
    try {
      const lost = await findLostRequests(pending.values(), queues, producer);
      if (lost.length > 0) logger.warn({ requests: lost.length }, 'requests lost by redis, sent again');
      for (const request of lost) this.#resend(request);
    } catch (error) {
      // They keep their deadlines.
      logger.warn({ error: String(error) }, 'lost requests not looked for');
    }
  }

  /** Nobody has to wait for a model that was unloaded everywhere. */
  async refuseUnloaded(): Promise<void> {
    const { pending, queues, producer, logger } = this.#options;
    if (this.#refusing || pending.count === 0) return;
    this.#refusing = true;
    try {
      const refusalOf = (model: string, version: string) => this.#unloadedError(model, version);
      const refused = await takeUnloadedRequests(pending.values(), queues, producer, refusalOf);
      for (const { request, error } of refused) this.giveUp(request.sequence, error);
    } catch (error) {
      logger.debug({ error: String(error) }, 'requests for unloaded models not looked for'); // they keep their deadlines
    } finally {
      this.#refusing = false;
    }
  }

  #unloadedError(model: string, version: string): InferError | undefined {
    const { feed } = this.#options;
    if (!feed.wasUnloaded(model) || feed.catalog.wakeable(model)) return undefined;
    try {
      feed.catalog.resolve(model, version);
      return undefined;
    } catch (error) {
      return error instanceof NotServed && error.code === 'NOT_FOUND' ? error : undefined;
    }
  }

  /** The worker that got it does not serve the model any more, and has run nothing of it. */
  #tryElsewhere(sequence: number): boolean {
    const { pending, clock } = this.#options;
    const request = pending.get(sequence);
    if (!request || request.resends >= MAX_RESENDS) return false;
    const waitMs = FIRST_RESEND_MS * 2 ** request.resends;
    request.resends += 1;
    request.queued = false; // so that nobody else sends it meanwhile
    clock.setTimer(() => {
      if (!request.settled) this.#resend(request);
    }, waitMs);
    return true;
  }

  /**
   * A request that its worker did not run because it does not serve the model any more, or has no room for another sequence,
   * may go to another. Returns what to answer with; undefined while it may be served yet.
   */
  refused(reply: Reply & { readonly error: InferError }): Reply | undefined {
    const { sequence, error } = reply;
    const isNotServed = error instanceof NotServed;
    const isFull = error.code === 'RESOURCE_EXHAUSTED' && error.refusedAt === 'entry';
    if (!isNotServed && !isFull) return reply;
    const { sequences } = this.#options;
    if (!sequences.has(sequence)) return isNotServed && this.#tryElsewhere(sequence) ? undefined : reply;
    const refusal = isFull ? sequences.crowded(sequence, error) : sequences.refused(sequence, error);
    return refusal && { sequence, error: refusal };
  }

  /** Nothing of the request is in the queue any more. */
  giveUp(sequence: number, error: InferError): void {
    const { pending, sequences } = this.#options;
    pending.fail(sequence, error);
    sequences.over(sequence);
  }

  #resend(request: PendingRequest): void {
    if (request.worker !== '') {
      const lost = sequenceLost(request.request.model, sequencePartOf(request.request), 'the queue lost its request');
      this.giveUp(request.sequence, lost);
      return;
    }
    request.bundle = '';
    request.queued = false;
    const { pending, lanes, versionQueues, feed } = this.#options;
    const { model, version } = request.request;
    try {
      const { maxBatchSize } = feed.catalog.resolve(model, version);
      request.queueVersion = versionQueues.choose(model, version);
      lanes.push(request, maxBatchSize);
    } catch (error) {
      pending.fail(request.sequence, InferError.from(error));
    }
  }
}
