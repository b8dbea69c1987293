import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { InferError } from '../../../shared/errors.ts';
import { ChurnMap } from '../../../shared/runtime/churn.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { RedisLink } from '../../../shared/runtime/redis-link.ts';
import { within } from '../../../shared/runtime/within.ts';
import { LIMITS_KEY, LIMITS_PRODUCERS_KEY, limitsOfProducerKey } from '../../../shared/wire/names.ts';
import { type Ask, DIMENSIONS, type Refusal, SCOPES, type SharedLimits } from './limits.ts';
import { ENTER_AND_LEAVE, SILENCE_US, TAKE_BACK } from './limits-script.ts';

/** What one step takes at most; more wait for the next. */
const MAX_ENTERS = 256;
const MAX_LEAVES = 1024;
const MAX_AGAIN = 1024;
/** Who leaves waits so long for company, in ms; until then the counts are too high and nobody gets in too early. */
const LEAVE_DELAY_MS = 5;
/** How often a producer is heard of, and looks for dead ones, in ms. */
const BEAT_MS = 1000;
const MAX_DEAD = 10;
/** Beats without anything in hand after which a producer signs off; the next request signs it on again. */
const IDLE_BEATS = 30;
/** Longest wait for Redis at the end, in ms. */
const CLOSE_MS = 1000;

export interface RedisLimitsOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly logger: Logger;
  /** In microseconds; Redis' own clock unless given. */
  readonly nowUs?: () => number;
}

interface Waiting {
  readonly ask: Ask;
  readonly resolve: (refusal: Refusal | undefined) => void;
  readonly reject: (error: InferError) => void;
  /** Nobody waits any more: it was told that Redis is away. */
  isOver: boolean;
}

/**
 * The counts of a pool, in Redis. One step at a time is under way; what wants to come in meanwhile goes together in the
 * next, and what leaves rides along. Nothing is asked of Redis before the first request that is limited.
 *
 * Each step may find that the counts of this producer are gone: it was taken for dead, or Redis lost its data. Then what is
 * still in hand is counted again with the next step. A Redis that was started anew may have counts that are a second old;
 * then they are taken back and counted anew in one step.
 */
export class RedisLimits implements SharedLimits {
  readonly #options: RedisLimitsOptions;
  readonly #producer = `l${randomBytes(9).toString('base64url')}`;
  readonly #keys: readonly string[];
  #entering: Waiting[] = [];
  /** Those of the step under way. */
  #asking: Waiting[] = [];
  #leaving: { readonly epoch: string; readonly ask: Ask }[] = [];
  /** What this producer has in hand, and the epoch in which it was counted; '' for what is to be counted again. */
  readonly #held = new ChurnMap<Ask, string>();
  #lost: Ask[] = [];
  #epoch = '';
  /** Redis may count what it counted some time ago. */
  #mustRecount = false;
  #calls = 0;
  #step: Promise<void> | undefined;
  #stopWaiting: (() => void) | undefined;
  #beat: NodeJS.Timeout | undefined;
  #idleBeats = 0;
  #closed = false;

  constructor(options: RedisLimitsOptions) {
    this.#options = options;
    this.#keys = [LIMITS_KEY, limitsOfProducerKey(this.#producer), LIMITS_PRODUCERS_KEY];
    options.link.onState((state) => {
      if (state.kind === 'down') this.#refuseWaiting();
    });
    options.link.onRestart(() => {
      this.#mustRecount = true;
      if (this.#beat) this.#schedule(true);
    });
  }

  enter(ask: Ask): Promise<Refusal | undefined> {
    return new Promise((resolve, reject) => {
      // What throws in here rejects the promise.
      if (this.#closed) throw new InferError('UNAVAILABLE', 'the server is shutting down');
      this.#options.link.assertUsable();
      this.#beat ??= setInterval(() => void this.#onBeat(), BEAT_MS).unref();
      this.#entering.push({ ask, resolve, reject, isOver: false });
      this.#schedule(true);
    });
  }

  leave(ask: Ask): void {
    const epoch = this.#held.get(ask);
    this.#held.delete(ask);
    if (epoch === undefined) return;
    if (epoch === '') {
      // It waits to be counted again. One that is just being counted is told when that is done.
      this.#lost = this.#lost.filter((lost) => lost !== ask);
      return;
    }
    this.#leaving.push({ epoch, ask });
    this.#schedule(false);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#beat);
    this.#refuseWaiting();
    // While Redis is away neither ends; what this process holds there expires.
    await within(this.#step ?? Promise.resolve(), CLOSE_MS);
    this.#stopWaiting?.();
    if (this.#epoch !== '' && this.#options.link.state.kind === 'up') {
      await within(this.#takeBack(this.#producer, 0), CLOSE_MS);
    }
  }

  /** Is not heard of until the next request comes, as if the process stood still. For tests. */
  pause(): void {
    clearInterval(this.#beat);
    this.#beat = undefined;
  }

  #schedule(soon: boolean): void {
    if (this.#step || this.#closed) return; // which goes on with what has come
    if (this.#stopWaiting && !soon) return;
    this.#stopWaiting?.();
    if (soon) {
      const immediate = setImmediate(() => this.#run());
      this.#stopWaiting = () => clearImmediate(immediate);
    } else {
      const timer = setTimeout(() => this.#run(), LEAVE_DELAY_MS);
      this.#stopWaiting = () => clearTimeout(timer);
    }
  }

  #run(work: () => Promise<boolean> = () => this.#steps()): void {
    this.#stopWaiting?.();
    this.#stopWaiting = undefined;
    this.#step ??= work().then((isDone) => {
      this.#step = undefined;
      if (this.#entering.length > 0) this.#schedule(true);
      else if (this.#mustRecount && isDone) this.#schedule(true);
      else if (this.#leaving.length > 0 && isDone) this.#schedule(false); // else with the next beat
    });
  }

  /** Goes on while somebody wants to come in. */
  async #steps(): Promise<boolean> {
    do {
      if (!(await this.#one())) return false;
    } while (this.#entering.length > 0 || this.#lost.length > 0);
    return true;
  }

  /** One step. False when Redis did not take it; then nobody was let in, and who left leaves later. */
  async #one(): Promise<boolean> {
    const { redis, link, logger, nowUs } = this.#options;
    const anew = this.#mustRecount;
    if (anew) this.#loseAll();
    const leaving = this.#leaving.splice(0, MAX_LEAVES);
    const again = this.#lost.splice(0, MAX_AGAIN);
    // Nobody comes in beside those who are in and not counted yet.
    const entering = (this.#asking = this.#entering.splice(0, this.#lost.length > 0 ? 0 : MAX_ENTERS));
    const values = [this.#producer, String((this.#calls += 1)), nowUs ? String(nowUs()) : '', anew ? '1' : '0'];
    values.push(String(leaving.length));
    for (const { epoch, ask } of leaving) values.push(epoch, ...namesOf(ask), ...amountsOf(ask));
    values.push(String(again.length));
    for (const ask of again) values.push(...namesOf(ask), ...amountsOf(ask));
    values.push(String(entering.length));
    for (const { ask } of entering) values.push(...encodeAsk(ask));
    try {
      const [epoch = '', ...refusals] = (await ENTER_AND_LEAVE.run(redis, this.#keys, values)) as string[]; // as the script answers
      this.#follow(epoch);
      for (const ask of again) this.#hold(ask, epoch, !this.#held.has(ask));
      entering.forEach((waiting, index) => this.#settle(waiting, epoch, refusals[index] ?? ''));
      return true;
    } catch (cause) {
      if (cause instanceof Error && cause.message.includes('OOM')) link.reportStorageFull();
      logger.warn({ error: String(cause) }, 'limits not asked');
      const error = new InferError('UNAVAILABLE', 'the queue could not count the request', { cause });
      for (const waiting of entering) reject(waiting, error);
      this.#mustRecount = true; // nobody knows whether Redis took it
      return false;
    }
  }

  #settle(waiting: Waiting, epoch: string, refusal: string): void {
    if (refusal === '') this.#hold(waiting.ask, epoch, waiting.isOver);
    if (!waiting.isOver) waiting.resolve(refusal === '' ? undefined : decodeRefusal(refusal));
    waiting.isOver = true;
  }

  #hold(ask: Ask, epoch: string, isGone: boolean): void {
    this.#held.set(ask, epoch);
    if (isGone) this.leave(ask);
  }

  /** What is in hand is to be counted again, and what has left since is not. */
  #loseAll(): void {
    this.#mustRecount = false;
    this.#leaving = [];
    this.#lost = [...this.#held].map(([ask]) => ask);
    for (const ask of this.#lost) this.#held.set(ask, '');
  }

  /** Whoever is in hand from another epoch is counted no more. */
  #follow(epoch: string): void {
    if (this.#epoch === epoch) return;
    if (this.#epoch !== '') {
      for (const [ask, of] of this.#held) {
        if (of === epoch || of === '') continue;
        this.#held.set(ask, '');
        this.#lost.push(ask);
      }
      this.#leaving = this.#leaving.filter((left) => left.epoch === epoch);
    }
    this.#epoch = epoch;
  }

  async #onBeat(): Promise<void> {
    const { link, redis, logger } = this.#options;
    if (link.state.kind !== 'up') return;
    this.#idleBeats = this.#held.size === 0 && this.#entering.length === 0 ? this.#idleBeats + 1 : 0;
    if (this.#idleBeats > IDLE_BEATS) {
      await this.#signOff();
      return;
    }
    this.#run();
    await this.#step;
    try {
      const now = (this.#options.nowUs?.() ?? link.now() * 1000) - SILENCE_US;
      const silent = await redis.zrangebyscore(LIMITS_PRODUCERS_KEY, '-inf', now, 'LIMIT', 0, MAX_DEAD);
      for (const producer of silent) if (producer !== this.#producer) await this.#takeBack(producer, SILENCE_US);
    } catch (error) {
      logger.debug({ error: String(error) }, 'dead producers not looked for');
    }
  }

  async #signOff(): Promise<void> {
    await this.#step;
    if (this.#held.size > 0 || this.#entering.length > 0 || this.#step) return;
    clearInterval(this.#beat);
    this.#beat = undefined;
    this.#idleBeats = 0;
    this.#run(() => this.#takeBack(this.#producer, 0));
  }

  async #takeBack(producer: string, silenceUs: number): Promise<boolean> {
    const { redis, logger, nowUs } = this.#options;
    const keys = [LIMITS_KEY, limitsOfProducerKey(producer), LIMITS_PRODUCERS_KEY];
    try {
      const values = [producer, String(silenceUs), nowUs ? String(nowUs()) : ''];
      const done = await TAKE_BACK.run(redis, keys, values);
      if (done === 1 && producer !== this.#producer) logger.warn({ producer }, 'counts of a dead producer taken back');
      return true;
    } catch (error) {
      logger.debug({ error: String(error) }, 'counts of a producer not taken back'); // they expire
      return false;
    }
  }

  /** Redis is away: nobody comes in uncounted. Those of the step under way leave again should it be taken later. */
  #refuseWaiting(): void {
    const fault = this.#options.link.fault() ?? 'the server is shutting down';
    for (const waiting of this.#entering.splice(0)) reject(waiting, new InferError('UNAVAILABLE', fault));
    for (const waiting of this.#asking) reject(waiting, new InferError('UNAVAILABLE', fault));
  }
}

function reject(waiting: Waiting, error: InferError): void {
  if (waiting.isOver) return;
  waiting.isOver = true;
  waiting.reject(error);
}

function namesOf({ model, tenant }: Ask): [string, string] {
  return [model.name, tenant?.name ?? ''];
}

function amountsOf({ rows, bytes }: Ask): [string, string] {
  return [String(rows), String(bytes)];
}

/** In the order in which the script reads them. */
function encodeAsk(ask: Ask): string[] {
  const { model, tenant, pool } = ask;
  const values = [...DIMENSIONS.map((what) => String(pool[what])), ...namesOf(ask), ...amountsOf(ask)];
  values.push(String(model.weight), ...DIMENSIONS.map((what) => String(model.max[what])));
  if (tenant) {
    values.push(String(tenant.weight), ...DIMENSIONS.map((what) => String(tenant.max[what])));
    values.push(String(tenant.intervalUs), String(tenant.burst));
  }
  return values;
}

const KEPT_FOR = [undefined, 'models', 'tenants'] as const;

function decodeRefusal(text: string): Refusal {
  const [scope, what, kept, inHand, limit, excess, requestsInHand, waitUs, speed] = text.split(' ');
  return {
    scope: SCOPES[Number(scope)] ?? 'pool',
    what: DIMENSIONS[Number(what) - 1] ?? 'rate',
    keptFor: KEPT_FOR[Number(kept)],
    inHand: Number(inHand),
    limit: Number(limit),
    excess: Number(excess),
    requestsInHand: Number(requestsInHand),
    waitUs: Number(waitUs),
    perSecond: speed === undefined || speed === '' ? undefined : Number(speed),
  };
}
