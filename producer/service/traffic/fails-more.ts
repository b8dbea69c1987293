import type { Outcomes } from './failure-window.ts';

/** Fewer requests or failures say nothing. */
const MIN_REQUESTS = 20;
const MIN_FAILURES = 5;
/** How far apart the two rates must be, in standard deviations of their difference: by chance about once in a thousand. */
const DEVIATIONS = 3;

/**
 * Whether one version fails more than the others, and not by chance. The rates are estimated with one failure and one
 * success added to each side, so that few requests leave much doubt, on either side.
 */
export function failsMore(one: Readonly<Outcomes>, others: Readonly<Outcomes>): boolean {
  if (one.total < MIN_REQUESTS || one.failed < MIN_FAILURES) return false;
  const [a, b] = [estimate(one), estimate(others)];
  return a.rate - b.rate > DEVIATIONS * Math.sqrt(a.variance + b.variance);
}

/** Mean and variance of the beta distribution of the rate. */
function estimate({ total, failed }: Readonly<Outcomes>): { rate: number; variance: number } {
  const rate = (failed + 1) / (total + 2);
  return { rate, variance: (rate * (1 - rate)) / (total + 3) };
}
