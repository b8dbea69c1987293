import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { findUnsupportedFields } from '../../../../shared/model/unsupported-fields.ts';

function problemsOf(text: string): string[] {
  return findUnsupportedFields(parseModelConfig(text, 'config.pbtxt'));
}

const GPU = 'optimization.execution_accelerators.gpu_execution_accelerator';
const CPU = 'optimization.execution_accelerators.cpu_execution_accelerator';

describe('findUnsupportedFields', () => {
  it.each([
    ['input { name: "x" allow_ragged_batch: true }', 'input "x": allow_ragged_batch', 'declare padding.inputs'],
    ['batch_input { kind: BATCH_ELEMENT_COUNT }', 'batch_input', 'declare padding.inputs'],
    ['batch_output { target_name: "y" }', 'batch_output', 'declare padding.inputs'],
    ['instance_group { name: "g" kind: KIND_GPU }', 'instance_group "g": kind: KIND_GPU', 'set kind: KIND_CPU'],
    ['instance_group { name: "g" kind: KIND_MODEL }', 'instance_group "g": kind: KIND_MODEL', 'set kind: KIND_CPU'],
    ['instance_group { name: "g" secondary_devices { } }', 'instance_group "g": secondary_devices', 'remove it'],
    ['instance_group { name: "g" host_policy: "numa" }', 'instance_group "g": host_policy', 'numactl'],
    ['optimization { priority: PRIORITY_MAX }', 'optimization.priority', 'rate_limiter'],
    ['optimization { cuda { graphs: true } }', 'optimization.cuda', 'remove it'],
    ['optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }', GPU, 'remove it'],
    ['optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }', CPU, 'CPU kernels'],
    ['optimization { gather_kernel_buffer_threshold: 1 }', 'optimization.gather_kernel_buffer_threshold', 'remove it'],
    ['optimization { eager_batching: true }', 'optimization.eager_batching', 'remove it'],
    ['model_transaction_policy { decoupled: true }', 'model_transaction_policy.decoupled', 'exactly one response'],
    ['model_repository_agents { agents { name: "a" } }', 'model_repository_agents', 'there are none'],
    ['runtime: "x"', 'runtime', 'remove it'],
  ])('refuses %j by name and says what to do', (text, field, hint) => {
    const [problem, ...others] = problemsOf(text);
    expect(problem).toMatch(`${field} is not supported: `);
    expect(problem?.slice(field.length)).toContain(hint);
    expect(others).toEqual([]);
  });

  it('names every group that uses a field', () => {
    const groups = '{ name: "a" host_policy: "x" }, { }, { name: "b" host_policy: "x" }';
    expect(problemsOf(`instance_group [ ${groups} ]`)).toEqual([
      expect.stringContaining('instance_group "a": host_policy'),
      expect.stringContaining('instance_group "b": host_policy'),
    ]);
  });

  it.each([
    'optimization { priority: PRIORITY_DEFAULT eager_batching: false gather_kernel_buffer_threshold: 0 }',
    'optimization { cuda { } execution_accelerators { } input_pinned_memory { enable: false } }',
    'optimization { output_pinned_memory { enable: true } }',
    'model_transaction_policy { decoupled: false }',
    'model_repository_agents { }',
    'instance_group { passive: true rate_limiter { priority: 2 resources { name: "R" count: 1 } } }',
    'model_warmup { name: "w" } metric_tags { key: "a" value: "b" } model_operations { op_library_filename: "x.so" }',
  ])('has nothing against %j', (text) => {
    expect(problemsOf(text)).toEqual([]);
  });
});
