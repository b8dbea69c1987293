import { describe, expect, it } from 'vitest';
import {
  preferredWaitMs,
  readIdempotencyKey,
  readJobQuery,
  readJobSettings,
  readWaitMs,
  wantsJob,
} from '../../../../../producer/facade/jobs/job-options.ts';
import { createJobId } from '../../../../../shared/jobs/job.ts';

describe('the settings of a job', () => {
  it('have defaults', () => {
    expect(readJobSettings({})).toEqual({
      priority: 0,
      delayMs: 0,
      timeoutMs: 3_600_000,
      maxAttempts: 3,
      keepMs: 3_600_000,
    });
  });

  it.each([
    ['500ms', 500],
    ['30', 30_000],
    ['1.5s', 1500],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['0', 0],
  ])('take %s as a time', (delay, ms) => {
    expect(readJobSettings({ delay }).delayMs).toBe(ms);
  });

  it.each([
    [{ delay: 'soon' }, 'delay must be a time such as 500ms, 30s, 5m, 2h or 1d, got soon'],
    [{ delay: '-1s' }, 'delay must be a time'],
    [{ delay: '8d' }, 'delay must be at most 7d, got 691200000 ms'],
    [{ timeout: '0' }, 'timeout must be 1ms to 7d, got 0 ms'],
    [{ keep: '999ms' }, 'keep must be 1s to 7d, got 999 ms'],
    [{ attempts: '0' }, 'attempts must be a whole number from 1 to 10, got 0'],
    [{ attempts: '2.5' }, 'attempts must be a whole number, got 2.5'],
    [{ priority: '1000001' }, 'priority must be a whole number from 0 to 1000000'],
    [{ priority: ['1', '2'] }, 'query parameter priority is given 2 times, expected once'],
    [{ prio: '1' }, 'unknown query parameter prio, expected priority, delay, timeout, attempts, keep'],
  ])('refuse %j', (query, message) => {
    expect(() => readJobSettings(query)).toThrow(message);
  });
});

describe('the header Prefer', () => {
  it.each([
    ['respond-async', true, 0],
    ['Respond-Async, wait=10', true, 10_000],
    ['wait="5";x=y,respond-async', true, 5000],
    ['respond-async;foo=bar, wait=1, wait=99', true, 1000],
    ['wait=999999', false, 300_000],
    ['handling=lenient', false, 0],
    ['', false, 0],
  ])('%s', (prefer, wants, waitMs) => {
    expect(wantsJob(prefer)).toBe(wants);
    expect(preferredWaitMs(prefer)).toBe(waitMs);
  });

  it('is not needed, and refused with a wait that is no number', () => {
    expect(wantsJob(undefined)).toBe(false);
    expect(() => preferredWaitMs('wait=soon')).toThrow('Prefer: wait must be a whole number of seconds, got soon');
  });
});

describe('the header Idempotency-Key', () => {
  it.each([
    ['abc', 'abc'],
    ['"abc"', 'abc'],
    ['a b', 'a b'],
  ])('%s', (value, key) => {
    expect(readIdempotencyKey({ 'idempotency-key': value })).toBe(key);
  });

  it.each(['', '""', 'ä', '"open', 'x'.repeat(256)])('refuses %j', (value) => {
    expect(() => readIdempotencyKey({ 'idempotency-key': value })).toThrow('header Idempotency-Key must be 1 to 255');
  });

  it('may be missing', () => expect(readIdempotencyKey({})).toBeUndefined());
});

describe('a wait', () => {
  it('is bounded', () => {
    expect(readWaitMs({})).toBe(0);
    expect(readWaitMs({ wait: '5m' })).toBe(300_000);
    expect(() => readWaitMs({ wait: '301s' })).toThrow('wait must be at most 5m, got 301s');
    expect(() => readWaitMs({ await: '1s' })).toThrow('unknown query parameter await');
  });
});

describe('a list', () => {
  it('takes model, state, limit and cursor', () => {
    const cursor = createJobId(Date.now());
    expect(readJobQuery({ model: 'm', state: 'failed', limit: '7', cursor })).toEqual({
      model: 'm',
      state: 'failed',
      limit: 7,
      cursor,
    });
    expect(readJobQuery({})).toEqual({ model: undefined, state: undefined, limit: 100, cursor: '' });
  });

  it.each([
    [{ model: '' }],
    [{ state: 'lost' }],
    [{ limit: '0' }],
    [{ limit: '1001' }],
    [{ cursor: '(x' }],
    [{ cursor: '' }],
  ])('refuses %j', (query) => {
    expect(() => readJobQuery(query)).toThrow(/must be/);
  });
});
