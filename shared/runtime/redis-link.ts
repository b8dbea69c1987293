import type { Redis } from 'ioredis';
import { InferError } from '../errors.ts';
import type { Logger } from './logger.ts';
import { findWriteRefusal, parseInfo } from './redis-checks.ts';

/**
 * Watches one connection and answers two questions at any moment without asking Redis: can it carry something now, and
 * what time is it there.
 *
 *   up -- connection breaks --> interrupted -- still broken after GRACE_MS --> down
 *   up -- a probe stays unanswered for PROBE_TIMEOUT_MS --> down
 *   any -- connection ready and a probe answered --> up
 *
 * `interrupted` exists because most breaks last 50 ms, and refusing what arrives in them would be a needless error.
 */
export type LinkState =
  | { readonly kind: 'up' }
  | { readonly kind: 'interrupted'; readonly sinceMs: number }
  | { readonly kind: 'down'; readonly reason: string };

const GRACE_MS = 500;
const PROBE_INTERVAL_MS = 1000;
const PROBE_TIMEOUT_MS = 2000;
const TICK_MS = PROBE_INTERVAL_MS / 4;
const PROBE_ATTEMPTS = 3;
/** Above this part of maxmemory nothing new goes in, so that answers and BullMQ's scripts still find room. */
const FULL_ABOVE = 0.9;

export class RedisLink {
  readonly #redis: Redis;
  readonly #logger: Logger;
  readonly #restartListeners: (() => void)[] = [];
  readonly #stateListeners: ((state: LinkState) => void)[] = [];
  #state: LinkState = { kind: 'down', reason: 'not connected yet' };
  /** Redis' time minus this process' `performance.now()`, in ms. */
  #offsetMs = 0;
  #storageFull = false;
  /** Why Redis takes no writes, in its own words; '' while it does. */
  #refusal = '';
  #runId = '';
  #timer: NodeJS.Timeout | undefined;
  #probing = false;
  #probeStartedMs = 0;
  #tickedMs = 0;
  #closed = false;

  constructor(redis: Redis, logger: Logger) {
    this.#redis = redis;
    this.#logger = logger;
  }

  /** Starts watching a connected client; resolves once the time is known. */
  async start(): Promise<void> {
    this.#redis.on('ready', this.#onReady);
    this.#redis.on('close', this.#onClose);
    await this.#probe();
    this.#tickedMs = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.#timer.unref();
  }

  get state(): LinkState {
    return this.#state;
  }

  /** Why nothing new can be carried now; undefined when it can. */
  fault(): string | undefined {
    if (this.#state.kind === 'down') return `the queue is not reachable: ${this.#state.reason}`;
    if (this.#storageFull) return 'queue storage full';
    if (this.#refusal !== '') return `the queue takes nothing: ${this.#refusal}`;
    return undefined;
  }

  /** @throws InferError UNAVAILABLE while nothing new can be carried. */
  assertUsable(): void {
    const fault = this.fault();
    if (fault !== undefined) throw new InferError('UNAVAILABLE', fault);
  }

  /** Called when a write was refused for want of memory, which is news before the next probe brings it. */
  reportStorageFull(): void {
    this.#storageFull = true;
  }

  /** Redis' clock in ms. Deadlines cross machines on it, so that no machine's own date matters. */
  now(): number {
    return performance.now() + this.#offsetMs;
  }

  /** A time on Redis' clock as one on this process' `performance.now()`. */
  toLocal(redisMs: number): number {
    return redisMs - this.#offsetMs;
  }

  /** A time on this process' `performance.now()` as one on Redis' clock. */
  toRedis(localMs: number): number {
    return localMs + this.#offsetMs;
  }

  /** Calls back when Redis came back as another process than before: what it held may be gone. */
  onRestart(listener: () => void): void {
    this.#restartListeners.push(listener);
  }

  /** Calls back when Redis can be reached again after it was down. */
  onBack(listener: () => void): void {
    let wasDown = false;
    this.onState(({ kind }) => {
      if (kind === 'up' && wasDown) listener();
      if (kind !== 'interrupted') wasDown = kind === 'down';
    });
  }

  onState(listener: (state: LinkState) => void): void {
    this.#stateListeners.push(listener);
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#redis.off('ready', this.#onReady);
    this.#redis.off('close', this.#onClose);
  }

  readonly #onReady = (): void => {
    void this.#probe();
  };

  readonly #onClose = (): void => {
    if (this.#state.kind === 'up') this.#setState({ kind: 'interrupted', sinceMs: performance.now() });
  };

  #tick(): void {
    const now = performance.now();
    // While this process stood still or got no processor, an answer may have come that it has not read yet: the clock of
    // the probe stood still as well.
    if (this.#probing) this.#probeStartedMs += Math.max(0, now - this.#tickedMs - 2 * TICK_MS);
    this.#tickedMs = now;
    if (this.#state.kind === 'interrupted' && now - this.#state.sinceMs > GRACE_MS) {
      this.#setState({ kind: 'down', reason: 'Redis does not accept connections' });
    }
    if (this.#probing) {
      if (this.#state.kind === 'up' && now - this.#probeStartedMs > PROBE_TIMEOUT_MS) {
        this.#setState({ kind: 'down', reason: 'Redis does not answer' });
      }
    } else if (this.#redis.status === 'ready' && now - this.#probeStartedMs > PROBE_INTERVAL_MS) {
      void this.#probe();
    }
  }

  /** One round trip for the time and the memory; a second one after a break, to see whether it is the same Redis. */
  async #probe(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    this.#probeStartedMs = performance.now();
    try {
      // A probe that was sent again after a break says nothing about the clock: once more then.
      for (let attempt = 0; attempt < PROBE_ATTEMPTS; attempt += 1) {
        if ((await this.#measure()) < PROBE_INTERVAL_MS) break;
      }
      if (this.#state.kind !== 'up') await this.#identify();
    } catch (error) {
      // The connection broke under the probe, or Redis is loading; the next probe tells more.
      this.#logger.debug({ error: String(error) }, 'redis probe failed');
    } finally {
      this.#probing = false;
    }
  }

  /** Asks for time, memory and whether writes are taken; returns the round trip in ms. */
  async #measure(): Promise<number> {
    const sentMs = performance.now();
    const [[seconds = 0, micros = 0], memory, refusal = ''] = await Promise.all([
      this.#redis.time(),
      this.#redis.info('memory'),
      findWriteRefusal(this.#redis),
    ]);
    const receivedMs = performance.now();
    this.#offsetMs = seconds * 1000 + micros / 1000 - (sentMs + receivedMs) / 2;
    this.#storageFull = isFull(parseInfo(memory));
    if (refusal !== this.#refusal) {
      if (refusal === '') this.#logger.info({}, 'redis takes writes again');
      else this.#logger.warn({ reason: refusal }, 'redis takes no writes');
      this.#refusal = refusal;
    }
    return receivedMs - sentMs;
  }

  async #identify(): Promise<void> {
    const runId = parseInfo(await this.#redis.info('server')).get('run_id') ?? '';
    const restarted = this.#runId !== '' && this.#runId !== runId;
    this.#runId = runId;
    if (this.#closed || this.#redis.status !== 'ready') return;
    this.#setState({ kind: 'up' });
    if (restarted) for (const listener of this.#restartListeners) listener();
  }

  #setState(state: LinkState): void {
    if (this.#closed) return;
    if (state.kind === 'down') this.#logger.warn({ reason: state.reason }, 'redis is down');
    else if (state.kind === 'up' && this.#state.kind === 'down' && this.#offsetMs !== 0) {
      this.#logger.info({}, 'redis is up');
    }
    this.#state = state;
    for (const listener of this.#stateListeners) listener(state);
  }
}

function isFull(memory: ReadonlyMap<string, string>): boolean {
  const limit = Number(memory.get('maxmemory') ?? 0);
  return limit > 0 && Number(memory.get('used_memory') ?? 0) > limit * FULL_ABOVE;
}
