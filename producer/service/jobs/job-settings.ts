import { InferError } from '../../../shared/errors.ts';
import type { JobWebhook } from '../../../shared/jobs/job.ts';

/** What a client may say of a job beside its request. */
export interface JobSettings {
  /** 0 stands in line with synchronous requests; 1 and more behind them, lower numbers first. */
  readonly priority: number;
  /** Until it may run, in ms. */
  readonly delayMs: number;
  /** From then to when it must be answered, in ms. */
  readonly timeoutMs: number;
  /** How often it may run when it fails in a way that may pass. */
  readonly maxAttempts: number;
  /** How long its record and answer are kept once it is over, in ms. */
  readonly keepMs: number;
}

const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;

export const DEFAULT_JOB_SETTINGS: JobSettings = Object.freeze({
  priority: 0,
  delayMs: 0,
  timeoutMs: HOUR_MS,
  maxAttempts: 3,
  keepMs: HOUR_MS,
});

interface Bounds {
  readonly min: number;
  readonly max: number;
  /** As the client knows it. */
  readonly name: string;
  /** What min and max are in words. */
  readonly words: string;
}

export const JOB_BOUNDS: Readonly<Record<keyof JobSettings, Bounds>> = {
  priority: { min: 0, max: 1_000_000, name: 'priority', words: 'a whole number from 0 to 1000000' },
  delayMs: { min: 0, max: WEEK_MS, name: 'delay', words: 'at most 7d' },
  timeoutMs: { min: 1, max: WEEK_MS, name: 'timeout', words: '1ms to 7d' },
  maxAttempts: { min: 1, max: 10, name: 'attempts', words: 'a whole number from 1 to 10' },
  keepMs: { min: 1000, max: WEEK_MS, name: 'keep', words: '1s to 7d' },
};

/** @throws InferError INVALID_ARGUMENT naming the setting, what was expected and what was given. */
export function assertJobSettings(settings: JobSettings): void {
  for (const [key, { min, max, name, words }] of Object.entries(JOB_BOUNDS)) {
    const value = settings[key as keyof JobSettings]; // the keys of JOB_BOUNDS
    if (Number.isInteger(value) && value >= min && value <= max) continue;
    const given = name === 'priority' || name === 'attempts' ? String(value) : `${value} ms`;
    throw new InferError('INVALID_ARGUMENT', `${name} must be ${words}, got ${given}`);
  }
}

/** Of a job that is not over. */
export function webhookOf({ webhook: url }: { readonly webhook?: string | undefined }): JobWebhook | undefined {
  return url === undefined ? undefined : { url, state: 'pending', attempts: 0 };
}
