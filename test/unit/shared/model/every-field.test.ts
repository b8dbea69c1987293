import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { normaliseModelConfig } from '../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { validateModelConfig } from '../../../../shared/model/validate-config.ts';
import { type ConfigPath, everyPath, nameOf, setField } from './config-paths.ts';

/** Fields that change what the server does, or that it checks against the model and its folder. */
const ACTED_ON = `
name platform backend max_batch_size default_model_filename
version_policy.latest.num_versions version_policy.all version_policy.specific.versions
input.name input.data_type input.format input.dims input.reshape.shape input.optional
output.name output.data_type output.dims output.label_filename output.reshape.shape
optimization.graph.level
dynamic_batching.preferred_batch_size dynamic_batching.max_queue_delay_microseconds
dynamic_batching.preserve_ordering dynamic_batching.priority_levels dynamic_batching.default_priority_level
dynamic_batching.default_queue_policy.timeout_action
dynamic_batching.default_queue_policy.default_timeout_microseconds
dynamic_batching.default_queue_policy.allow_timeout_override dynamic_batching.default_queue_policy.max_queue_size
dynamic_batching.priority_queue_policy.timeout_action
dynamic_batching.priority_queue_policy.default_timeout_microseconds
dynamic_batching.priority_queue_policy.allow_timeout_override dynamic_batching.priority_queue_policy.max_queue_size
sequence_batching.max_sequence_idle_microseconds sequence_batching.control_input.name
sequence_batching.control_input.control.kind sequence_batching.control_input.control.int32_false_true
sequence_batching.control_input.control.fp32_false_true sequence_batching.control_input.control.bool_false_true
sequence_batching.control_input.control.data_type
sequence_batching.direct.max_queue_delay_microseconds sequence_batching.direct.minimum_slot_utilization
sequence_batching.oldest.max_candidate_sequences sequence_batching.oldest.preferred_batch_size
sequence_batching.oldest.max_queue_delay_microseconds sequence_batching.oldest.preserve_ordering
sequence_batching.state.input_name sequence_batching.state.output_name sequence_batching.state.data_type
sequence_batching.state.dims sequence_batching.state.initial_state.name
sequence_batching.state.initial_state.data_type sequence_batching.state.initial_state.dims
sequence_batching.state.initial_state.zero_data sequence_batching.state.initial_state.data_file
ensemble_scheduling.step.model_name ensemble_scheduling.step.model_version
ensemble_scheduling.step.input_map ensemble_scheduling.step.output_map ensemble_scheduling.max_inflight_requests
instance_group.name instance_group.kind instance_group.count instance_group.gpus instance_group.passive
instance_group.rate_limiter.resources.name instance_group.rate_limiter.resources.global
instance_group.rate_limiter.resources.count instance_group.rate_limiter.priority
metric_tags parameters.string_value
model_warmup.name model_warmup.batch_size model_warmup.count model_warmup.inputs.data_type model_warmup.inputs.dims
model_warmup.inputs.zero_data model_warmup.inputs.random_data model_warmup.inputs.input_data_file
model_operations.op_library_filename response_cache.enable
model_metrics.metric_control.metric_identifier.family model_metrics.metric_control.histogram_options.buckets
`;

/** Fields that say something about a GPU only, which Triton takes without effect for a model on the CPU, too. */
const WITHOUT_EFFECT_ON_A_CPU = `
optimization.input_pinned_memory.enable optimization.output_pinned_memory.enable cc_model_filenames
`;

const known = new Set(`${ACTED_ON} ${WITHOUT_EFFECT_ON_A_CPU}`.split(/\s+/).filter((name) => name !== ''));
const paths = everyPath();
const others = paths.filter((path) => !known.has(nameOf(path)));

const PLAIN = `name: "m" backend: "onnxruntime" platform: "onnxruntime_onnx" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }`;
const ENSEMBLE = PLAIN.replace(/backend.*_onnx"/, 'platform: "ensemble"');

function problemsWith(path: ConfigPath): string[] {
  const config = parseModelConfig(path[0]?.name === 'ensemble_scheduling' ? ENSEMBLE : PLAIN, 'config.pbtxt');
  setField(config, path);
  return validateModelConfig(normaliseModelConfig(config));
}

/** Whether the problem says of the field, or of a message around it, that it cannot be used. */
function refuses(problem: string, path: ConfigPath): boolean {
  if (!/ is not supported|is for TensorRT models only/.test(problem)) return false;
  return path.some((field) => new RegExp(`\\b${field.name} is (not supported|for TensorRT)`).test(problem));
}

describe('every field of a config', () => {
  it('is one that the server acts on or refuses', () => {
    expect(paths.length).toBeGreaterThan(100);
    expect(others.length).toBeGreaterThan(30);
    expect([...known].filter((name) => !paths.some((path) => nameOf(path) === name))).toEqual([]);
  });

  it.each(others.map((path) => [nameOf(path), path] as const))('%s is refused by name', (_, path) => {
    expect(problemsWith(path).filter((problem) => refuses(problem, path))).not.toEqual([]);
  });

  it.each(paths.filter((path) => known.has(nameOf(path))).map((path) => [nameOf(path), path] as const))(
    '%s is not refused as a whole',
    (_, path) => {
      expect(problemsWith(path).filter((problem) => refuses(problem, path))).toEqual([]);
    },
  );

  it('has its row in docs/model-config.md, or one of a message around it', () => {
    const page = readFileSync(fileURLToPath(new URL('../../../../docs/model-config.md', import.meta.url)), 'utf8');
    const cells = page.split('\n').flatMap((line) => (line.startsWith('| `') ? [line.split('|')[1] ?? ''] : []));
    const rows = new Set(cells.flatMap((cell) => Array.from(cell.matchAll(/`([\w.]+)`/g), ([, name]) => name)));
    const missing = paths.filter((path) => !path.some((_, index) => rows.has(nameOf(path.slice(0, index + 1)))));
    expect(missing.map(nameOf)).toEqual([]);
    const fields = new Set(paths.flatMap((path) => path.map((_, index) => nameOf(path.slice(0, index + 1)))));
    expect([...rows].filter((name) => !fields.has(name!))).toEqual([]);
  });
});
