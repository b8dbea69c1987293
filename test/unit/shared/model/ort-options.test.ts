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
  sessionEntries: {},
  arenaShrinkage: '',
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
    [
      'session.use_device_allocator_for_initializers',
      '0',
      { sessionEntries: { 'session.use_device_allocator_for_initializers': '0' } },
    ],
    [
      'optimization.enable_gelu_approximation',
      '1',
      { sessionEntries: { 'optimization.enable_gelu_approximation': '1' } },
    ],
    ['session.intra_op.allow_spinning', '1', { sessionEntries: { 'session.intra_op.allow_spinning': '1' } }],
    ['memory.enable_memory_arena_shrinkage', 'cpu:0', { arenaShrinkage: 'cpu:0' }],
    ['memory.enable_memory_arena_shrinkage', '', {}],
    ['share_session_between_instances', 'true', {}],
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
    ['memory.enable_memory_arena_shrinkage', 'gpu:0', 'expected "cpu:0", got "gpu:0"'],
    ['session.set_denormal_as_zero', '', 'expected a text of 1 to 1024 characters, got 0'],
    ['session.set_denormals_as_zero', '1', 'is not supported; did you mean "session.set_denormal_as_zero"?'],
    ['session.optimized_model_filepath', '/x', 'is not supported'],
    ['memory.something', '1', 'is not supported'],
    ['ep.context_enable', '1', 'is not supported'],
    ['share_session_between_instances', 'yes', 'expected one of "0", "1", "false", "true", got "yes"'],
  ])('refuses %s = %j', (key, value, problem) => {
    expect(validateOrtOptions(parameter(key, value))).toEqual([expect.stringContaining(problem)]);
    expect(validateOrtOptions(parameter(key, value))[0]).toContain(`parameter "${key}"`);
  });

  it('shrinks no arena where there is none', () => {
    const text = `parameters { key: "memory.enable_memory_arena_shrinkage" value { string_value: "cpu:0" } }
parameters { key: "enable_mem_arena" value { string_value: "0" } }`;
    expect(validateOrtOptions(parse(text))).toEqual([expect.stringContaining('enable_mem_arena switches it off')]);
  });
});
