import { create, equals, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { diffModelConfigs, encodeModelConfigText } from '../../../../shared/model/config-text.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { type ModelConfig, ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';

const parse = (text: string): ModelConfig => parseModelConfig(text, 'config.pbtxt');
const rewritten = (text: string): string => encodeModelConfigText(parse(text));
const diff = (written: string, completed: string): string[] =>
  diffModelConfigs(parse(written), parse(completed)).map(
    ({ mark, text }) => `${{ same: ' ', added: '+', removed: '-' }[mark]} ${text}`,
  );

describe('encodeModelConfigText', () => {
  it('writes a config as people do', () => {
    const text = `name: "m"
platform: "onnxruntime_onnx"
version_policy { specific { versions: [ 1, 3 ] } }
max_batch_size: 8
input {
  name: "pixels"
  data_type: TYPE_FP32
  format: FORMAT_NCHW
  dims: [ 3, -1, -1 ]
}
input {
  name: "scale"
  data_type: TYPE_INT64
  dims: [ 1 ]
  reshape { shape: [ ] }
  optional: true
}
output {
  name: "scores"
  data_type: TYPE_FP32
  dims: [ 10 ]
  label_filename: "labels.txt"
}
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 2000
}
instance_group { count: 2 }
parameters {
  key: "execution_mode"
  value { string_value: "1" }
}
`;
    expect(rewritten(text)).toBe(text);
  });

  it('writes an empty message where being there is what counts', () => {
    expect(rewritten('dynamic_batching { } version_policy { all { } }')).toBe(
      'version_policy { all { } }\ndynamic_batching { }\n',
    );
  });

  it('escapes what a string cannot hold, and leaves other letters alone', () => {
    expect(rewritten(String.raw`name: "a\"b\\c\n\001" "2é入"`)).toBe(String.raw`name: "a\"b\\c\n\0012é入"` + '\n');
  });

  it('writes floats of 32 bits in their shortest form', () => {
    const control = 'sequence_batching { control_input { control { fp32_false_true: [ 0.1, -inf, 1e+20 ] } } }';
    expect(rewritten(control)).toContain('fp32_false_true: [ 0.1, -inf, 100000000000000000000 ]');
  });

  it('is read back as the same config, whatever it holds', () => {
    fc.assert(
      fc.property(arbitraryConfig(), (config) => {
        const text = encodeModelConfigText(config);
        const again = parse(text);
        expect(equals(ModelConfigSchema, again, config)).toBe(true);
        expect(encodeModelConfigText(again)).toBe(text);
        expect(diffModelConfigs(config, again).every(({ mark }) => mark === 'same')).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});

describe('diffModelConfigs', () => {
  it('marks what was added inside a message that was there', () => {
    expect(
      diff(
        'max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 5 }',
        'max_batch_size: 8 dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 5 } instance_group { count: 2 }',
      ),
    ).toEqual([
      '  max_batch_size: 8',
      '  dynamic_batching {',
      '+   preferred_batch_size: [ 8 ]',
      '    max_queue_delay_microseconds: 5',
      '  }',
      '+ instance_group { count: 2 }',
    ]);
  });

  it('shows the old value above the new one, and what is gone', () => {
    expect(diff('name: "a" runtime: "x"', 'name: "b"')).toEqual(['- name: "a"', '+ name: "b"', '- runtime: "x"']);
  });

  it('compares the messages of a list by their place and the entries of a map by their key', () => {
    const entry = (key: string, value: string) => `parameters { key: "${key}" value { string_value: "${value}" } }`;
    expect(
      diff(
        `input { name: "a" } ${entry('k', '1')}`,
        `input { name: "a" dims: 3 } input { name: "b" } ${entry('j', '1')} ${entry('k', '2')}`,
      ),
    ).toEqual([
      '  input {',
      '    name: "a"',
      '+   dims: [ 3 ]',
      '  }',
      '+ input { name: "b" }',
      '+ parameters {',
      '+   key: "j"',
      '+   value { string_value: "1" }',
      '+ }',
      '  parameters {',
      '    key: "k"',
      '    value {',
      '-     string_value: "1"',
      '+     string_value: "2"',
      '    }',
      '  }',
    ]);
  });

  it('is the new text when the marks are left out', () => {
    fc.assert(
      fc.property(arbitraryConfig(), arbitraryConfig(), (written, config) => {
        const kept = diffModelConfigs(written, config).filter(({ mark }) => mark !== 'removed');
        const again = parse(kept.map(({ text }) => text).join('\n'));
        expect(equals(ModelConfigSchema, again, config)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });
});

/** Every kind of field that a config has: scalars of each type, lists, maps, oneofs, enums, nested messages. */
function arbitraryConfig(): fc.Arbitrary<ModelConfig> {
  // No NaN, which is equal to nothing.
  const text = fc.string({ unit: 'grapheme', maxLength: 8 });
  const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
  const list = <T>(items: fc.Arbitrary<T>) => fc.array(items, { maxLength: 3 });
  const map = <T>(items: fc.Arbitrary<T>) => fc.dictionary(text, items, { maxKeys: 3, noNullPrototype: true });
  const reshape = fc.option(fc.record({ shape: list(int64) }), { nil: undefined });
  const tensor = { name: text, dims: list(int64), dataType: fc.nat(14), reshape };
  const policy = fc.record({ timeoutAction: fc.nat(1), defaultTimeoutMicroseconds: uint64, maxQueueSize: uint32 });
  const versions = fc.oneof(
    fc.record({ case: fc.constant('latest' as const), value: fc.record({ numVersions: uint32 }) }),
    fc.record({ case: fc.constant('all' as const), value: fc.constant({}) }),
    fc.record({ case: fc.constant('specific' as const), value: fc.record({ versions: list(int64) }) }),
  );
  const control = fc.record({
    kind: fc.nat(3),
    int32FalseTrue: list(int32),
    fp32FalseTrue: list(fc.float({ noNaN: true })),
    boolFalseTrue: list(fc.boolean()),
  });
  const scheduling = fc.oneof(
    fc.record({
      case: fc.constant('dynamicBatching' as const),
      value: fc.record({
        preferredBatchSize: list(int32),
        maxQueueDelayMicroseconds: uint64,
        preserveOrdering: fc.boolean(),
        defaultQueuePolicy: fc.option(policy, { nil: undefined }),
        priorityQueuePolicy: fc
          .array(fc.tuple(uint64, policy), { maxLength: 3 })
          .map((entries) => Object.fromEntries(entries.map(([key, value]) => [key.toString(), value]))),
      }),
    }),
    fc.record({
      case: fc.constant('sequenceBatching' as const),
      value: fc.record({
        controlInput: list(fc.record({ name: text, control: list(control) })),
        strategyChoice: fc.record({
          case: fc.constant('direct' as const),
          value: fc.record({ minimumSlotUtilization: fc.float({ noNaN: true }) }),
        }),
      }),
    }),
    fc.record({
      case: fc.constant('ensembleScheduling' as const),
      value: fc.record({
        step: list(fc.record({ modelName: text, modelVersion: int64, inputMap: map(text), outputMap: map(text) })),
      }),
    }),
  );
  const bucket = fc.record({
    metricOptions: fc.record({
      case: fc.constant('histogramOptions' as const),
      value: fc.record({ buckets: list(fc.double({ noNaN: true })) }),
    }),
  });
  const init = fc.record({
    name: text,
    maxBatchSize: int32,
    versionPolicy: fc.record({ policyChoice: versions }),
    input: list(fc.record({ ...tensor, format: fc.nat(2), optional: fc.boolean() })),
    output: list(fc.record({ ...tensor, labelFilename: text })),
    schedulingChoice: scheduling,
    instanceGroup: list(fc.record({ gpus: list(fc.nat()), kind: fc.nat(3), profile: list(text) })),
    metricTags: map(text),
    parameters: map(fc.record({ stringValue: text })),
    modelMetrics: fc.record({ metricControl: list(bucket) }),
    optimization: fc.option(fc.record({ graph: fc.record({ level: int32 }), eagerBatching: fc.boolean() }), {
      nil: undefined,
    }),
  });
  // Through bytes, so that floats have the 32 bits of their field.
  return init.map((fields) =>
    fromBinary(ModelConfigSchema, toBinary(ModelConfigSchema, create(ModelConfigSchema, fields as object))),
  );
}
