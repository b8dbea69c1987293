import type { TestContext } from 'vitest';
import type { Outcome } from './drill.ts';

/** What a drill counted; one row of the table at the end. */
export interface DrillFigures {
  readonly seed: number;
  readonly sent: number;
  /** The right answer. */
  readonly answered: number;
  /** An honest refusal that a client can act on: 429, 503 or 504. */
  readonly refused: number;
  /** No answer, a wrong one, or another error. */
  readonly lost: number;
  /** Answers that came more than once. Every request carries a value of its own, so one to somebody else shows here too. */
  readonly double: number;
  /** From the fault, or from its end where it lasts, to the first right answer to a request that was sent after it. */
  readonly firstMs: number;
  /** From the same to the last request that was refused or took more than a second. */
  readonly recoveryMs: number;
}

declare module 'vitest' {
  interface TaskMeta {
    drill?: DrillFigures;
  }
}

const REFUSALS = new Set([429, 503, 504]);
const SLOW_MS = 1000;

/** The drills run whole, not in the short form of the test suite. */
export const WHOLE = process.env['DRILLS'] === 'whole';

/** Chooses instants and sizes; printed with every drill, and given again by `npm run drills -- --seed=N`. */
export const SEED = Number(process.env['DRILL_SEED'] ?? Date.now() % 1_000_000);

export function isGood({ status, answer, value }: Outcome): boolean {
  return status === 200 && answer === value;
}

export function isFast({ startedMs, endedMs }: Outcome): boolean {
  return endedMs - startedMs <= SLOW_MS;
}

/** @param sinceMs the fault, or its end where it lasts, on `performance.now()` */
export function figuresOf(outcomes: readonly Outcome[], sinceMs: number): DrillFigures {
  const good = outcomes.filter(isGood);
  const refused = outcomes.filter(({ status }) => REFUSALS.has(status));
  const answers = outcomes.flatMap(({ status, answer }) => (status === 200 ? [answer] : []));
  const troubled = outcomes.filter((outcome) => !isGood(outcome) || !isFast(outcome));
  const later = good.filter(({ startedMs }) => startedMs >= sinceMs);
  return {
    seed: SEED,
    sent: outcomes.length,
    answered: good.length,
    refused: refused.length,
    lost: outcomes.length - good.length - refused.length,
    double: answers.length - new Set(answers).size,
    firstMs: Math.round(Math.min(...later.map(({ endedMs }) => endedMs)) - sinceMs),
    recoveryMs: Math.round(Math.max(0, ...troubled.map(({ endedMs }) => endedMs - sinceMs))),
  };
}

/** Puts the figures into the table and returns them. */
export function report({ task }: Pick<TestContext, 'task'>, outcomes: readonly Outcome[], sinceMs: number) {
  const figures = figuresOf(outcomes, sinceMs);
  task.meta.drill = figures;
  const lost = outcomes.filter((outcome) => !isGood(outcome) && !REFUSALS.has(outcome.status));
  for (const { value, status, answer } of lost.slice(0, 5)) console.error(`lost: ${value} got ${status}: ${answer}`);
  return figures;
}

/** Numbers from 0 to 1, the same ones for the same seed: a linear congruential generator, good enough to choose. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
