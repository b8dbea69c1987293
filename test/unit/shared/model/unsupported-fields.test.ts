import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { findUnsupportedFields } from '../../../../shared/model/unsupported-fields.ts';

function problemsOf(text: string): string[] {
  return findUnsupportedFields(parseModelConfig(text, 'config.pbtxt'));
}

describe('findUnsupportedFields', () => {
  it.each([
    ['sequence_batching { }', 'sequence_batching'],
    ['input { name: "x" allow_ragged_batch: true }', 'input "x": allow_ragged_batch'],
    ['batch_input { kind: BATCH_ELEMENT_COUNT }', 'batch_input'],
    ['batch_output { target_name: "y" }', 'batch_output'],
    ['instance_group { name: "g" kind: KIND_GPU }', 'instance_group "g": kind: KIND_GPU'],
    ['instance_group { name: "g" kind: KIND_MODEL }', 'instance_group "g": kind: KIND_MODEL'],
    ['instance_group { name: "g" rate_limiter { priority: 2 } }', 'instance_group "g": rate_limiter'],
    ['instance_group { name: "g" rate_limiter { resources { name: "r" } } }', 'instance_group "g": rate_limiter'],
    ['instance_group { name: "g" passive: true }', 'instance_group "g": passive'],
    ['instance_group { name: "g" secondary_devices { } }', 'instance_group "g": secondary_devices'],
    ['instance_group { name: "g" host_policy: "numa" }', 'instance_group "g": host_policy'],
    ['optimization { priority: PRIORITY_MAX }', 'optimization.priority'],
    ['optimization { cuda { graphs: true } }', 'optimization.cuda'],
    [
      'optimization { execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } } }',
      'optimization.execution_accelerators',
    ],
    ['optimization { gather_kernel_buffer_threshold: 1 }', 'optimization.gather_kernel_buffer_threshold'],
    ['optimization { eager_batching: true }', 'optimization.eager_batching'],
    ['model_warmup { name: "w" }', 'model_warmup'],
    ['model_operations { op_library_filename: "x.so" }', 'model_operations'],
    ['model_transaction_policy { decoupled: true }', 'model_transaction_policy.decoupled'],
    ['model_repository_agents { agents { name: "a" } }', 'model_repository_agents'],
    ['runtime: "x"', 'runtime'],
    ['model_metrics { metric_control { } }', 'model_metrics'],
    ['metric_tags { key: "a" value: "b" }', 'metric_tags'],
  ])('refuses %j by name', (text, field) => {
    expect(problemsOf(text)).toEqual([`${field} is not supported yet`]);
  });

  it('names every group that uses a field', () => {
    expect(problemsOf('instance_group [ { name: "a" passive: true }, { }, { name: "b" passive: true } ]')).toEqual([
      'instance_group "a": passive is not supported yet',
      'instance_group "b": passive is not supported yet',
    ]);
  });
});
