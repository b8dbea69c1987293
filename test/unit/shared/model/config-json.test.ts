import { describe, expect, it } from 'vitest';
import { encodeModelConfigJson, modelConfigToJson } from '../../../../shared/model/config-json.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';

function json(text: string) {
  return modelConfigToJson(parseModelConfig(text, 'config.pbtxt'));
}

describe('modelConfigToJson', () => {
  it('prints every scalar and list, and no message that is not set', () => {
    expect(json('')).toEqual({
      name: '',
      platform: '',
      backend: '',
      runtime: '',
      max_batch_size: 0,
      input: [],
      output: [],
      batch_input: [],
      batch_output: [],
      instance_group: [],
      default_model_filename: '',
      cc_model_filenames: {},
      metric_tags: {},
      parameters: {},
      model_warmup: [],
    });
  });

  it('uses the names of the file, enums by name and numbers for 64-bit integers', () => {
    const config = json(`
      version_policy { specific { versions: [ 1, 3 ] } }
      input { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] reshape { shape: [ -1, 3 ] } }
      output { name: "y" data_type: TYPE_STRING dims: 1 }
      instance_group { name: "g" kind: KIND_CPU count: 2 }
      parameters { key: "k" value { string_value: "v" } }
      dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 100
        priority_queue_policy { key: 7 value { timeout_action: DELAY } } }
      optimization { input_pinned_memory { enable: true } }
      model_warmup { inputs { key: "x" value { zero_data: true } } }`);
    expect(config).toMatchObject({
      version_policy: { specific: { versions: [1, 3] } },
      input: [
        {
          name: 'x',
          data_type: 'TYPE_FP32',
          format: 'FORMAT_NONE',
          dims: [-1, 3],
          reshape: { shape: [-1, 3] },
          is_shape_tensor: false,
          allow_ragged_batch: false,
          optional: false,
          is_non_linear_format_io: false,
        },
      ],
      instance_group: [
        { name: 'g', kind: 'KIND_CPU', count: 2, gpus: [], secondary_devices: [], profile: [], passive: false },
      ],
      parameters: { k: { string_value: 'v' } },
      dynamic_batching: {
        preferred_batch_size: [4],
        max_queue_delay_microseconds: 100,
        preserve_ordering: false,
        priority_levels: 0,
        default_priority_level: 0,
        priority_queue_policy: {
          '7': {
            timeout_action: 'DELAY',
            default_timeout_microseconds: 0,
            allow_timeout_override: false,
            max_queue_size: 0,
          },
        },
      },
      optimization: {
        priority: 'PRIORITY_DEFAULT',
        input_pinned_memory: { enable: true },
        gather_kernel_buffer_threshold: 0,
        eager_batching: false,
      },
      model_warmup: [{ inputs: { x: { data_type: 'TYPE_INVALID', dims: [], zero_data: true } } }],
    });
    expect(config).not.toHaveProperty('output.0.reshape');
    expect(config).not.toHaveProperty('dynamic_batching.default_queue_policy');
    expect(config).not.toHaveProperty('model_warmup.0.inputs.x.random_data');
    expect(config).toHaveProperty('output.0.label_filename', '');
  });

  it('shows an empty reshape, as it is set', () => {
    expect(json('input { reshape { } }')).toHaveProperty('input.0.reshape', { shape: [] });
  });

  it('shows a number without a name as it is', () => {
    expect(json('input { data_type: 99 }')).toHaveProperty('input.0.data_type', 99);
  });
});

describe('encodeModelConfigJson', () => {
  it('writes the same as JSON text', () => {
    const text = 'name: "\\"ü\\"" input { dims: [ 1, 2 ] } metric_tags { key: "a" value: "b\\n" } model_metrics { }';
    const config = parseModelConfig(text, 'config.pbtxt');
    expect(JSON.parse(encodeModelConfigJson(config))).toEqual(modelConfigToJson(config));
  });

  it('does not round integers beyond 2^53', () => {
    const text = 'dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }';
    expect(encodeModelConfigJson(parseModelConfig(text, 'config.pbtxt'))).toContain(
      '"max_queue_delay_microseconds":18446744073709551615,',
    );
  });
});
