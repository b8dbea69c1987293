import { describe, expect, it } from 'vitest';
import {
  batchParametersOf,
  findBatchParameterProblems,
  findBatchSettingProblems,
} from '../../../../shared/model/batch-parameters.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';

const parameter = (key: string, value: string) => `parameters { key: "${key}" value { string_value: "${value}" } } `;
const parse = (text: string) => parseModelConfig(text, 'config.pbtxt');
const valuesOf = (text: string) => findBatchParameterProblems(parse(text));
const settingsOf = (text: string) => findBatchSettingProblems(parse(text));
const AUTO = parameter('batch_settings', 'auto');

describe('the batch parameters of a config', () => {
  it('have defaults', () => {
    expect(batchParametersOf(parse(''))).toEqual({
      auto: false,
      goalMs: undefined,
      curve: true,
      tolerance: 0.02,
      sizes: undefined,
    });
  });

  it('are read', () => {
    const text = `${AUTO}${parameter('slo_p99_ms', '12.5')}${parameter('batch_tolerance', '0.3')}`;
    expect(valuesOf(text)).toEqual([]);
    expect(batchParametersOf(parse(text))).toMatchObject({ auto: true, goalMs: 12.5, curve: true, tolerance: 0.3 });
    expect(batchParametersOf(parse(parameter('batch_curve', 'off'))).curve).toBe(false);
  });

  it.each([
    ['any', 'any'],
    ['powers', 'powers'],
    ['1,4,16', [1, 4, 16]],
  ])('read the sizes %s', (text, sizes) => {
    expect(valuesOf(parameter('batch_sizes', text))).toEqual([]);
    expect(batchParametersOf(parse(parameter('batch_sizes', text))).sizes).toEqual(sizes);
    expect(settingsOf(`max_batch_size: 16 ${parameter('batch_sizes', text)}`)).toEqual([]);
  });

  it.each(['', '4,1', '1,1', '0,1', '1, 2', '1.5', 'all'])('refuse the sizes %j', (text) => {
    const expected = 'expected "any", "powers" or rising numbers of rows, as "1,4,16"';
    expect(valuesOf(parameter('batch_sizes', text))).toEqual([`parameter "batch_sizes": ${expected}, got "${text}"`]);
  });

  it.each([
    ['max_batch_size: 0', 'powers', 'needs a max_batch_size of 1 or more'],
    ['max_batch_size: 8', '1,16', '16 rows are more than max_batch_size 8'],
    ['max_batch_size: 8 sequence_batching { }', 'powers', 'does not go with sequence_batching'],
  ])('refuse with %s the sizes %s', (text, sizes, expected) => {
    expect(settingsOf(`${text} ${parameter('batch_sizes', sizes)}`)).toEqual([expect.stringContaining(expected)]);
  });

  it('leave the names of others alone', () => {
    expect(valuesOf(`${parameter('batching', 'whatever')}${parameter('constructor', 'x')}`)).toEqual([]);
  });

  it.each([
    [
      'batch_settings',
      'autom',
      'parameter "batch_settings": expected "auto" or "config", got "autom"; did you mean "auto"?',
    ],
    ['batch_settings', '', 'parameter "batch_settings": expected "auto" or "config", got ""'],
    ['batch_curve', 'no', 'parameter "batch_curve": expected "on" or "off", got "no"; did you mean "on"?'],
    ['slo_p99_ms', '0', 'parameter "slo_p99_ms": expected a time in ms, up to an hour, got "0"'],
    ['slo_p99_ms', '50ms', 'parameter "slo_p99_ms": expected a time in ms, up to an hour, got "50ms"'],
    ['slo_p99_ms', '3600001', 'parameter "slo_p99_ms": expected a time in ms, up to an hour, got "3600001"'],
    ['batch_tolerance', '-1', 'parameter "batch_tolerance": expected a share, as "0.05", got "-1"'],
    ['batch_tolerance', 'Infinity', 'parameter "batch_tolerance": expected a share, as "0.05", got "Infinity"'],
  ])('refuse %s "%s"', (key, value, problem) => {
    expect(valuesOf(parameter(key, value))).toEqual([problem]);
  });

  it('need dynamic batching for what acts on it', () => {
    expect(settingsOf(`max_batch_size: 8 ${AUTO}${parameter('slo_p99_ms', '5')}`)).toEqual([
      'parameter "batch_settings": "auto" needs dynamic_batching { }',
      'parameter "slo_p99_ms" needs dynamic_batching { }',
    ]);
    expect(settingsOf(`max_batch_size: 8 dynamic_batching { } ${AUTO}${parameter('slo_p99_ms', '5')}`)).toEqual([]);
  });

  it('refuse preferred sizes and a curve that is off beside auto', () => {
    const batching = (sizes: string) => `max_batch_size: 8 dynamic_batching { preferred_batch_size: [ ${sizes} ] } `;
    expect(settingsOf(`${batching('4, 8')}${AUTO}`)).toEqual([
      'dynamic_batching.preferred_batch_size does not go with parameter "batch_settings" "auto": leave one out',
    ]);
    expect(settingsOf(`${batching('8')}${AUTO}`)).toEqual([]);
    expect(settingsOf(batching('4, 8'))).toEqual([]);
    expect(valuesOf(`${AUTO}${parameter('batch_curve', 'off')}`)).toEqual([
      'parameter "batch_curve": "off" does not go with "batch_settings" "auto"',
    ]);
  });
});
