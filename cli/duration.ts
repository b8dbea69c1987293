import { InferError } from '../shared/errors.ts';

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** What a timer can hold, in ms. */
const MAX_MS = 2 ** 31 - 1;

/**
 * A time like `90s`, `5m` or `1h` in ms; a number alone is seconds.
 * @throws InferError INVALID_ARGUMENT
 */
export function parseDuration(option: string, text: string): number {
  const [, digits, unit = 's'] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/.exec(text.trim()) ?? [];
  const ms = Number(digits) * (UNITS[unit] ?? Number.NaN);
  if (ms >= 1 && ms <= MAX_MS) return Math.round(ms);
  throw new InferError(
    'INVALID_ARGUMENT',
    `${option} expects a time like 90s, 5m or 1h of at most 24 days, got "${text}"`,
  );
}
