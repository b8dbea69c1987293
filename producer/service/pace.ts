import type { Clock } from '../../shared/runtime/clock.ts';

/** How far back a speed looks, in ms: what happened before counts a third, and so on. */
export const MEMORY_MS = 10_000;

/** What a client is told at least and at most, in ms. */
const MIN_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

/** Models that are measured by themselves; names come from clients. */
const MAX_MODELS = 1000;

/**
 * How many leave each second, of those who come and go. Time in which nobody is there does not count: after a quiet night
 * the speed is that of the evening before.
 */
export class Rate {
  #inHand = 0;
  #left = 0;
  #atMs: number;
  #sinceMs: number;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
    this.#sinceMs = nowMs;
  }

  get inHand(): number {
    return this.#inHand;
  }

  /** Whether it has measured anything. */
  get isKnown(): boolean {
    return this.#left > 0;
  }

  enter(nowMs: number): void {
    if (this.#inHand === 0) {
      this.#sinceMs += nowMs - this.#atMs;
      this.#atMs = nowMs;
    }
    this.#inHand += 1;
  }

  /** @param counts false for one that was turned away, which says nothing about the speed */
  leave(nowMs: number, counts: boolean): void {
    this.#inHand -= 1;
    if (!counts && this.#inHand > 0) return;
    this.#left = this.#left * Math.exp((this.#atMs - nowMs) / MEMORY_MS) + (counts ? 1 : 0);
    this.#atMs = nowMs;
  }

  /** Undefined while nothing was measured. */
  perSecond(nowMs: number): number | undefined {
    if (this.#left === 0) return undefined;
    const untilMs = this.#inHand === 0 ? this.#atMs : nowMs;
    const seen = 1 - Math.exp((this.#sinceMs - untilMs) / MEMORY_MS);
    const left = this.#left * Math.exp((this.#atMs - untilMs) / MEMORY_MS);
    return seen > 0 ? (left / seen) * (1000 / MEMORY_MS) : undefined;
  }
}

/**
 * Measures how fast requests leave this process, and tells those who are refused when to come again: when what must leave
 * first has left, and then what those take who were told the same before. Those stand in a line in time, one for each
 * scope, which moves on whether they come or not: one client that asks again and again makes others wait a minute at most,
 * and only those of its own model or tenant.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #all: Rate;
  readonly #byModel = new Map<string, Rate>();
  /** By scope, when the last one of those who were told to come again has had its turn. */
  readonly #lines = new Map<string, number>();
  #sweptMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#all = new Rate(clock.now());
  }

  enter(model: string): void {
    const nowMs = this.#clock.now();
    this.#all.enter(nowMs);
    let rate = this.#byModel.get(model);
    if (!rate && this.#byModel.size < MAX_MODELS) this.#byModel.set(model, (rate = new Rate(nowMs)));
    rate?.enter(nowMs);
  }

  /** @param counts false for one that was turned away */
  leave(model: string, counts: boolean): void {
    const nowMs = this.#clock.now();
    this.#all.leave(nowMs, counts);
    const rate = this.#byModel.get(model);
    if (!rate || rate.inHand === 0) return; // came when there were too many models
    rate.leave(nowMs, counts);
    if (!rate.isKnown && rate.inHand === 0) this.#byModel.delete(model);
  }

  /**
   * When one that is refused now may come again, in ms.
   * @param first how many must leave before there is room
   * @param model whose requests they are; all alike unless given
   */
  retryAfterMs(first: number, model?: string): number {
    const rate = model === undefined ? undefined : this.#byModel.get(model);
    const perSecond = (rate ?? this.#all).perSecond(this.#clock.now());
    return this.retryAtMs(first, perSecond, rate ? `model/${model ?? ''}` : 'process');
  }

  /**
   * The same at a speed that was measured elsewhere.
   * @param scope whose limit it is: those of one scope wait for one another
   */
  retryAtMs(first: number, perSecond: number | undefined, scope: string): number {
    if (perSecond === undefined) return MIN_RETRY_MS;
    const nowMs = this.#clock.now();
    this.#sweep(nowMs);
    const eachMs = 1000 / perSecond;
    const lineMs = Math.max(0, (this.#lines.get(scope) ?? 0) - nowMs);
    this.#lines.set(scope, nowMs + Math.min(MAX_RETRY_MS, lineMs + eachMs));
    return Math.min(MAX_RETRY_MS, Math.max(MIN_RETRY_MS, lineMs + first * eachMs));
  }

  /** Once a second at most, as there may be as many scopes as models and tenants. */
  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < MIN_RETRY_MS) return;
    this.#sweptMs = nowMs;
    for (const [scope, untilMs] of this.#lines) if (untilMs <= nowMs) this.#lines.delete(scope);
  }
}
