import { beforeEach, expect, test } from 'vitest';
import { DEFAULT_LOG_VALUES, LogSettings } from '../../../../producer/service/log-settings.ts';
import type { LogKinds } from '../../../../shared/runtime/logger.ts';

let told: LogKinds[];
let settings: LogSettings;

beforeEach(() => {
  told = [];
  settings = new LogSettings(DEFAULT_LOG_VALUES, (kinds) => told.push(kinds));
});

test('tell the logger which kinds of lines to write, each by itself', () => {
  change({ log_warning: false, log_verbose_level: 1, log_format: 'ISO8601' });
  expect(settings.values).toEqual({
    ...DEFAULT_LOG_VALUES,
    log_warning: false,
    log_verbose_level: 1,
    log_format: 'ISO8601',
  });
  expect(told).toEqual([{ debug: true, info: true, warn: false, error: true }]);
});

test.each([
  [{ log_info: 'yes' }, 'INVALID_ARGUMENT', 'true or false, got "yes"'],
  [{ log_error: 1 }, 'INVALID_ARGUMENT', 'true or false'],
  [{ log_verbose_level: -1 }, 'INVALID_ARGUMENT', 'from 0'],
  [{ log_verbose_level: 1.5 }, 'INVALID_ARGUMENT', 'whole number'],
  [{ log_verbose_level: '1' }, 'INVALID_ARGUMENT', 'whole number'],
  [{ log_format: 'poem' }, 'INVALID_ARGUMENT', 'ISO8601'],
  [{ log_format: null }, 'INVALID_ARGUMENT', 'null'],
  [{ log_inof: true }, 'INVALID_ARGUMENT', 'did you mean log_info'],
  [{ log_file: 'x' }, 'UNIMPLEMENTED', 'standard error'],
])('%j is refused, and nothing changes', (values, code, text) => {
  const refusal = { code, message: expect.stringContaining(text) as string };
  expect(() => change({ log_warning: false, ...values })).toThrow(expect.objectContaining(refusal));
  expect(settings.values).toEqual(DEFAULT_LOG_VALUES);
  expect(told).toEqual([]);
});

function change(values: Record<string, unknown>): void {
  settings.change(new Map(Object.entries(values)));
}
