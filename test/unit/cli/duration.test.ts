import { expect, test } from 'vitest';
import { parseDuration } from '../../../cli/duration.ts';

test.each([
  ['5m', 300_000],
  ['90s', 90_000],
  ['90', 90_000],
  ['1.5h', 5_400_000],
  ['250ms', 250],
  [' 2 d ', 172_800_000],
])('%j is %d ms', (text, ms) => {
  expect(parseDuration('--idle-exit', text)).toBe(ms);
});

test.each(['', '0', '-5m', 'soon', '5 minutes', '25d', '1e9s'])('%j is refused with what is expected', (text) => {
  expect(() => parseDuration('--idle-exit', text)).toThrow(
    `--idle-exit expects a time like 90s, 5m or 1h of at most 24 days, got "${text}"`,
  );
});
