import { beforeEach, describe, expect, test } from 'vitest';
import { TraceSettings } from '../../../../producer/service/trace-settings.ts';

const DEFAULTS = {
  trace_level: ['OFF'],
  trace_rate: '1000',
  trace_count: '-1',
  log_frequency: '0',
  trace_file: '',
  trace_mode: 'triton',
};

let settings: TraceSettings;

beforeEach(() => {
  settings = new TraceSettings();
});

test('are Triton’s at the start, for the server and for each model', () => {
  expect(settings.valuesOf(undefined)).toEqual(DEFAULTS);
  expect(settings.valuesOf('m')).toEqual(DEFAULTS);
});

test('of the server hold for models without an own value', () => {
  change(undefined, { trace_rate: ['5'], trace_count: ['9'] });
  change('m', { trace_rate: ['7'] });
  expect(settings.valuesOf('m')).toMatchObject({ trace_rate: '7', trace_count: '9' });
  expect(settings.valuesOf('other')).toMatchObject({ trace_rate: '5', trace_count: '9' });
});

test('go back when they are cleared', () => {
  change(undefined, { trace_rate: ['5'] });
  change('m', { trace_rate: ['7'] });
  change('m', { trace_rate: [] });
  expect(settings.valuesOf('m').trace_rate).toBe('5');
  change(undefined, { trace_rate: [] });
  expect(settings.valuesOf('m')).toEqual(DEFAULTS);
});

test('change all together or not at all', () => {
  expect(() => change(undefined, { trace_rate: ['5'], trace_count: ['many'] })).toThrow();
  expect(settings.valuesOf(undefined)).toEqual(DEFAULTS);
});

describe('a value that cannot be', () => {
  test.each([
    [{ trace_rate: ['many'] }, 'INVALID_ARGUMENT', 'many'],
    [{ trace_rate: ['-1'] }, 'INVALID_ARGUMENT', 'from 0'],
    [{ trace_rate: ['1.5'] }, 'INVALID_ARGUMENT', '1.5'],
    [{ trace_rate: ['99999999999'] }, 'INVALID_ARGUMENT', '2147483647'],
    [{ trace_count: ['-2'] }, 'INVALID_ARGUMENT', 'from -1'],
    [{ log_frequency: ['1', '2'] }, 'INVALID_ARGUMENT', 'one whole number'],
    [{ trace_level: ['OFF', 'TIMESTAMPS'] }, 'INVALID_ARGUMENT', 'combined'],
    [{ trace_level: ['TIMESTAMPS'] }, 'INVALID_ARGUMENT', 'writes no traces'],
    [{ trace_level: ['LOUD'] }, 'INVALID_ARGUMENT', 'LOUD'],
    [{ trace_rat: ['5'] }, 'INVALID_ARGUMENT', 'did you mean trace_rate'],
    [{ trace_file: ['x'] }, 'UNIMPLEMENTED', 'trace_file'],
    [{ trace_mode: [] }, 'UNIMPLEMENTED', 'trace_mode'],
  ])('%j is refused with the reason', (values, code, text) => {
    expect(() => change('m', values)).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(text) as string }),
    );
  });
});

function change(model: string | undefined, values: Record<string, readonly string[]>): void {
  settings.change(model, new Map(Object.entries(values)));
}
