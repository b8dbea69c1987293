/** The first one counts. */
export const MAX_TRIES = 8;

const FIRST_RETRY_MS = 1000;
const GROWTH = 4;
const MAX_RETRY_MS = 1_800_000;
/** Receivers that were down are not met by all at once: each wait is up to this part shorter or longer. */
const SPREAD = 0.1;

/**
 * How long after a failed try the next one comes: about 1, 4, 16 seconds, 1, 4, 17 and 30 minutes, so that the last of 8
 * comes some 53 minutes after the first.
 * @param tries that were made, from 1
 * @param chance from 0 to 1
 */
export function webhookRetryMs(tries: number, chance = Math.random()): number {
  const waitMs = Math.min(FIRST_RETRY_MS * GROWTH ** (tries - 1), MAX_RETRY_MS);
  return Math.round(waitMs * (1 - SPREAD + 2 * SPREAD * chance));
}
