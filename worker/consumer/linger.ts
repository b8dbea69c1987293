import { setTimeout as wait } from 'node:timers/promises';

/** Producers look twice a second for who has left: after two looks in vain hardly anybody is left who does not know. */
export const QUIET_MS = 1000;
/** Longest time for those that are slow to look, in ms. */
export const LINGER_MS = 3000;

/**
 * How long a worker that leaves still has to answer what producers send to it alone: until nothing has come for a while,
 * but no longer than `maxMs` after `sinceMs`. 0 when that is over. Pure; times are on `performance.now()`.
 */
export function lingerLeftMs(nowMs: number, sinceMs: number, lastJobMs: number | undefined, maxMs: number): number {
  const quietMs = Math.max(sinceMs, lastJobMs ?? sinceMs) + QUIET_MS;
  return Math.max(0, Math.min(quietMs, sinceMs + maxMs) - nowMs);
}

/** Waits for that. `lastJobMs` tells when something came last. */
export async function linger(lastJobMs: () => number | undefined, maxMs: number): Promise<void> {
  const sinceMs = performance.now();
  for (;;) {
    const leftMs = lingerLeftMs(performance.now(), sinceMs, lastJobMs(), maxMs);
    if (leftMs <= 0) return;
    await wait(leftMs);
  }
}
