import { describe, expect, it } from 'vitest';
import { sessionOptionsOf, validateOrtOptions } from '../../../../shared/model/ort-options.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';

const DEFAULTS = {
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  executionMode: 'sequential',
  graphOptimizationLevel: 'all',
  enableCpuMemArena: true,
  enableMemPattern: true,
  exactInt8: true,
};

function parse(text: string) {
  return parseModelConfig(text, 'config.pbtxt');
}

function parameter(key: string, value: string) {
  return parse(`parameters { key: "${key}" value: { string_value: "${value}" } }`);
}

describe('sessionOptionsOf', () => {
  it('lets the calling thread do the work by default', () => {
    expect(sessionOptionsOf(parse(''))).toEqual(DEFAULTS);
  });

  it.each([
    ['intra_op_thread_count', '4', { intraOpNumThreads: 4 }],
    ['intra_op_thread_count', '0', {}],
    ['intra_op_thread_count', '-1', {}],
    ['inter_op_thread_count', '3', { interOpNumThreads: 3 }],
    ['execution_mode', '0', {}],
    ['execution_mode', '1', { executionMode: 'parallel', interOpNumThreads: 0 }],
    ['enable_mem_arena', '0', { enableCpuMemArena: false }],
    ['enable_mem_pattern', 'false', { enableMemPattern: false }],
    ['session.x64quantprecision', '0', { exactInt8: false }],
    ['session.use_device_allocator_for_initializers', '0', {}],
    ['something_else', 'x', {}],
  ])('understands %s = %s', (key, value, changed) => {
    const config = parameter(key, value);
    expect(validateOrtOptions(config)).toEqual([]);
    expect(sessionOptionsOf(config)).toEqual({ ...DEFAULTS, ...changed });
  });

  it.each([
    [0, 'all'],
    [-1, 'basic'],
    [1, 'extended'],
    [2, 'disabled'],
  ])('takes graph level %i for %s', (level, expected) => {
    const config = parse(`optimization { graph { level: ${level} } }`);
    expect(validateOrtOptions(config)).toEqual([]);
    expect(sessionOptionsOf(config).graphOptimizationLevel).toBe(expected);
  });
});

describe('validateOrtOptions', () => {
  it.each([
    ['intra_op_thread_count', 'four', 'expected a number of threads up to 1024, got "four"'],
    ['inter_op_thread_count', '100000', 'expected a number of threads up to 1024, got "100000"'],
    ['execution_mode', '', 'expected one of "0", "1", got ""'],
    ['enable_mem_arena', 'yes', 'expected one of "0", "1", "false", "true", got "yes"'],
    ['memory.enable_memory_arena_shrinkage', 'cpu:0', 'is not supported yet'],
    ['session.use_device_allocator_for_initializers', '1', 'is not supported yet'],
  ])('refuses %s = %j', (key, value, problem) => {
    expect(validateOrtOptions(parameter(key, value))).toEqual([expect.stringContaining(problem)]);
    expect(validateOrtOptions(parameter(key, value))[0]).toContain(`parameter "${key}"`);
  });
});
