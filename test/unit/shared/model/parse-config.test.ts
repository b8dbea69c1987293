import { create, equals } from '@bufbuild/protobuf';
import { toText } from '@bufbuild/protobuf/txtpb';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { DataType, type ModelConfig, ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';

function parse(text: string): ModelConfig {
  return parseModelConfig(text, 'config.pbtxt');
}

function errorOf(text: string): InferError {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof InferError) return error;
    throw error;
  }
  throw new Error(`parsed without an error: ${text}`);
}

const CANONICAL = `name: "m"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  {
    name: "a"
    data_type: TYPE_FP32
    format: FORMAT_NONE
    dims: [ 3, 4 ]
  },
  {
    name: "b"
    data_type: TYPE_STRING
    dims: [ 1 ]
    reshape: { shape: [ ] }
  }
]
output [
  {
    name: "c"
    data_type: TYPE_FP32
    dims: [ 10 ]
    label_filename: "labels.txt"
  }
]
instance_group [
  {
    count: 2
    kind: KIND_CPU
  }
]
version_policy: { latest { num_versions: 1 } }
parameters {
  key: "k"
  value: { string_value: "v" }
}
parameters {
  key: "l"
  value: { string_value: "w" }
}
`;

const swap = (from: string | RegExp, to: string): string => {
  const text = CANONICAL.replace(from, to);
  if (text === CANONICAL) throw new Error(`nothing to replace: ${String(from)}`);
  return text;
};

const INPUT_LIST = /input \[[^]*?\n\]\n/;
const INPUT_A = 'name: "a" data_type: TYPE_FP32 dims: [ 3, 4 ]';
const INPUT_B = 'name: "b" data_type: TYPE_STRING dims: 1 reshape { }';
const PARAMETERS = /parameters [^]*$/;

const VARIANTS: Record<string, string> = {
  'a list of messages without a colon': CANONICAL,
  'a list of messages with a colon': swap('input [', 'input: ['),
  'repeated blocks': swap(INPUT_LIST, `input { ${INPUT_A} }\ninput { ${INPUT_B} }\n`),
  'repeated blocks with colons': swap(INPUT_LIST, `input: { ${INPUT_A} }\ninput: { ${INPUT_B} }\n`),
  'a block and a list of one field': swap(INPUT_LIST, `input { ${INPUT_A} }\ninput [ { ${INPUT_B} } ]\n`),
  'a repeated scalar': swap('dims: [ 3, 4 ]', 'dims: 3 dims: 4'),
  'a repeated scalar and a list': swap('dims: [ 3, 4 ]', 'dims: 3 dims: [4]'),
  'an empty list among others': swap('dims: [ 3, 4 ]', 'dims: [] dims: [3,4]'),
  'a space in front of the colon': swap('dims: [ 3, 4 ]', 'dims : [ 3 , 4 ]').replace(
    'max_batch_size: 8',
    'max_batch_size : 8',
  ),
  'no space behind the colon': CANONICAL.replaceAll(': ', ':'),
  'commas between fields': CANONICAL.replaceAll(/(TYPE_\w+|"[abc]")\n/g, '$1,\n'),
  'semicolons between fields': CANONICAL.replaceAll(/(TYPE_\w+|"[abc]")\n/g, '$1;\n'),
  'everything on one line': CANONICAL.replaceAll('\n', ' '),
  'an empty reshape block': swap('reshape: { shape: [ ] }', 'reshape { }'),
  'an empty reshape block with a colon': swap('reshape: { shape: [ ] }', 'reshape: {}'),
  'a reshape list without a colon in front of the block': swap('reshape: {', 'reshape {'),
  'a version policy with an inner colon': swap('latest {', 'latest: {'),
  'a version policy without an outer colon': swap('version_policy: {', 'version_policy {'),
  'commas within map entries': swap(
    PARAMETERS,
    'parameters: { key: "k", value: { string_value: "v" } }\n\n\nparameters: { key: "l", value: { string_value: "w" } }',
  ),
  'a list of map entries': swap(
    PARAMETERS,
    'parameters [ { key: "k" value { string_value: "v" } }, { key: "l" value { string_value: "w" } } ]',
  ),
  'a map key given twice, where the last one wins': `parameters { key: "k" value { string_value: "old" } }\n${CANONICAL}`,
  'comments with text that is not ASCII': `# Größe: 8 × 3 {[<"'\n${CANONICAL.replaceAll('\n', ' # 入力 "\n')}`,
  'a comment on the last line without an end': `${CANONICAL}# end`,
  'single-quoted strings': CANONICAL.replaceAll('"', "'"),
  'adjacent strings': swap('"labels.txt"', '"lab" \'els\'\n ".txt"'),
  'escapes in strings': swap('"labels.txt"', String.raw`"\154abels\x2e\u0074xt"`),
  'a space in front of an enum': swap('kind: KIND_CPU', 'kind : KIND_CPU'),
  'enums as numbers': swap('data_type: TYPE_FP32', 'data_type: 11').replace('kind: KIND_CPU', 'kind: 2'),
  'CRLF line ends': CANONICAL.replaceAll('\n', '\r\n'),
  'a byte order mark': `\uFEFF${CANONICAL}`,
  tabs: CANONICAL.replaceAll('  ', '\t'),
  'no final newline': CANONICAL.trimEnd(),
  'no format': swap('    format: FORMAT_NONE\n', ''),
  'angle brackets': CANONICAL.replaceAll('{', '<').replaceAll('}', '>'),
  'hexadecimal and octal numbers': swap('max_batch_size: 8', 'max_batch_size: 0x8').replace('[ 3, 4 ]', '[ 03, 0X4 ]'),
  'other field order': swap(/^name: "m"\n/, '').concat('name: "m"\n'),
};

describe('parseModelConfig', () => {
  const canonical = parse(CANONICAL);

  it('reads every field of an ordinary config', () => {
    expect(canonical).toMatchObject({
      name: 'm',
      platform: 'onnxruntime_onnx',
      maxBatchSize: 8,
      input: [
        { name: 'a', dataType: DataType.TYPE_FP32, dims: [3n, 4n] },
        { name: 'b', dataType: DataType.TYPE_STRING, dims: [1n], reshape: { shape: [] } },
      ],
      output: [{ name: 'c', dims: [10n], labelFilename: 'labels.txt' }],
      instanceGroup: [{ count: 2, kind: 2 }],
      versionPolicy: { policyChoice: { case: 'latest', value: { numVersions: 1 } } },
      parameters: { k: { stringValue: 'v' }, l: { stringValue: 'w' } },
    });
    expect(canonical.input[0]?.reshape).toBeUndefined();
  });

  it.each(Object.entries(VARIANTS))('reads %s alike', (_, text) => {
    expect(toText(ModelConfigSchema, parse(text))).toBe(toText(ModelConfigSchema, canonical));
  });

  it.each([
    ['version_policy: { all { } }', { case: 'all' }],
    ['version_policy { all {} }', { case: 'all' }],
    ['version_policy: { specific: { versions: [1, 3] } }', { case: 'specific', value: { versions: [1n, 3n] } }],
    ['version_policy { specific { versions: 1 versions: 3 } }', { case: 'specific', value: { versions: [1n, 3n] } }],
  ])('reads %s', (text, choice) => {
    expect(parse(text).versionPolicy?.policyChoice).toMatchObject(choice);
  });

  it('reads an empty file as an empty config', () => {
    expect(equals(ModelConfigSchema, parse(' # nothing\n'), create(ModelConfigSchema))).toBe(true);
  });

  it('keeps 64-bit integers exact', () => {
    expect(parse('input { dims: [ -1, 9223372036854775807 ] }').input[0]?.dims).toEqual([-1n, 9223372036854775807n]);
  });

  it('lets a missing key or value of a map entry take its default', () => {
    expect(parse('parameters { key: "k" }').parameters).toMatchObject({ k: { stringValue: '' } });
  });

  it.each([
    ['max_batch: 8', '1:1: unknown field "max_batch" in ModelConfig; did you mean "max_batch_size"?'],
    [
      'name: "x"\r\n  max_batchsize: 8',
      '2:3: unknown field "max_batchsize" in ModelConfig; did you mean "max_batch_size"?',
    ],
    ['Name: "x"', '1:1: unknown field "Name" in ModelConfig; did you mean "name"?'],
    [
      'kind: KIND_CPU',
      '1:1: unknown field "kind" in ModelConfig; it belongs inside "batch_input" or "batch_output" or',
    ],
    [
      'max_queue_delay_microseconds: 5',
      '1:1: unknown field "max_queue_delay_microseconds" in ModelConfig; it belongs in',
    ],
    ['input { dim: 3 }', '1:9: unknown field "dim" in ModelInput; did you mean "dims"?'],
    ['xyzzy: 1', '1:1: unknown field "xyzzy" in ModelConfig; known are name, platform,'],
    ['input { data_type: FP32 }', '1:20: unknown value "FP32" for DataType; did you mean "TYPE_FP32"?'],
    ['input { data_type: TYPE_BYTES }', '1:20: unknown value "TYPE_BYTES" for DataType; did you mean "TYPE_STRING"?'],
    ['input { data_type: TYPE_FLOAT }', '1:20: unknown value "TYPE_FLOAT" for DataType; did you mean "TYPE_FP32"?'],
    ['instance_group { kind: KIND_CUDA }', '1:24: unknown value "KIND_CUDA" for ModelInstanceGroup.Kind; did you mean'],
    ['max_batch_size: 1 max_batch_size: 2', '1:19: non-repeated field "max_batch_size" is repeated'],
    ['dynamic_batching {} sequence_batching {}', '1:21: oneof "scheduling_choice" is already set'],
    ['input { dims: 3 } input { dims 3 }', '1:32: expected ":" before value of field "dims"'],
    ['name "x"', '1:6: expected ":" before value of field "name"'],
    ['input { dims: [ 1, 2, ] }', '1:23: expected an integer, got "]"; a list may not end with a comma'],
    ['input [ { name: "a" }, ]', '1:24: expected "{" or "<", got "]"; a list may not end with a comma'],
    ['input [ { name: "a" } { name: "b" } ]', '1:23: expected "," or "]" in list, got "{"'],
    ['input { dims: [ 1 2 ] }', '1:19: expected "," or "]" in list, got "2"'],
    ['name: "x" // a comment', '1:11: unexpected "/"; comments start with "#"'],
    ['/* a comment */ name: "x"', '1:1: unexpected "/"; comments start with "#"'],
    ['name: "x\n"', '1:7: invalid U+000A in string'],
    ['name: "x', '1:7: unterminated string'],
    [String.raw`name: "\q"`, '1:7: invalid escape \\q'],
    ['name: "é\\xff"', '1:7: invalid UTF-8 in string'],
    ['name: "a";; backend: "b"', '1:11: expected a field name, got ";"'],
    ['input {\n  name: "x"\n', '2:12: unexpected end of input, expected "}"; the "{" at 1:7 is not closed'],
    ['max_batch_size: 8 }', '1:19: expected a field name, got "}"'],
    ['max_batch_size:', '1:16: expected an integer, got end of input'],
    ['max_batch_size: "8"', '1:17: expected an integer, got a string'],
    ['max_batch_size: 08', '1:17: invalid number'],
    ['max_batch_size: 1.5', '1:17: expected an integer, got "1.5"'],
    ['max_batch_size: 3000000000', '1:17: max_batch_size: expected number (int32): 3000000000 out of range'],
    ['max_batch_size: ${batch}', '1:17: unexpected "$"; was a placeholder of a template left in?'],
    [
      'dynamic_batching { max_queue_delay_microseconds: -1 }',
      '1:50: an unsigned field does not accept a negative value',
    ],
    ['parameters { key: "a" val: {} }', '1:23: unknown field "val" in map entry'],
    ['\u0001', '1:1: unexpected U+0001'],
    ['# ü\n"名前" name: 1', '2:1: expected a field name, got a string'],
  ])('refuses %j', (text, message) => {
    const error = errorOf(text);
    expect(error.code).toBe('INVALID_ARGUMENT');
    expect(error.message).toContain(`config.pbtxt:${message}`);
  });

  it('counts columns in characters, and not the byte order mark', () => {
    expect(errorOf("\uFEFFname: '😀' foo: 1").message).toContain('config.pbtxt:1:11: unknown field "foo"');
  });

  it('names the place in a file of 100 kB', () => {
    const block = 'input { name: "x" data_type: TYPE_FP32 dims: [ 1, 2, 3 ] } # { "\n';
    const lines = Array.from({ length: 1600 }, () => block);
    lines[1234] = 'input { name: "x" dims: 3 4 }\n';
    expect(errorOf(lines.join('')).message).toBe('config.pbtxt:1235:27: cannot specify field by number: 4');
  });

  it('refuses messages nested without end', () => {
    expect(errorOf('input { reshape '.repeat(10_000)).code).toBe('INVALID_ARGUMENT');
    expect(errorOf('['.repeat(10_000)).code).toBe('INVALID_ARGUMENT');
  });

  it('reads back whatever it is given as text', () => {
    const text = fc.string({ unit: 'grapheme' });
    const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    const tensor = { name: text, dims: fc.array(int64), dataType: fc.constantFrom(0, 1, 11, 13, 14) };
    const arbitrary = fc.record({
      name: text,
      maxBatchSize: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
      input: fc.array(fc.record({ ...tensor, optional: fc.boolean() }), { maxLength: 3 }),
      output: fc.array(fc.record({ ...tensor, labelFilename: text }), { maxLength: 3 }),
      metricTags: fc.dictionary(fc.string(), text, { noNullPrototype: true }),
      instanceGroup: fc.array(fc.record({ gpus: fc.array(fc.nat()), kind: fc.constantFrom(0, 1, 2, 3) })),
    });
    fc.assert(
      fc.property(arbitrary, (init) => {
        const config = create(ModelConfigSchema, init as object);
        const again = parse(toText(ModelConfigSchema, config));
        expect(equals(ModelConfigSchema, again, config)).toBe(true);
      }),
      { numRuns: 100 },
    );
  });

  it('names the place of a stray token wherever it stands', () => {
    const tokens = CANONICAL.match(/"[^"]*"|[\w.]+|\S/g) ?? [];
    fc.assert(
      fc.property(fc.integer({ min: 0, max: tokens.length }), (index) => {
        const before = tokens.slice(0, index).map((token) => `${token}\n`);
        const text = [...before, '  !\n', ...tokens.slice(index).map((token) => `${token}\n`)].join('');
        expect(errorOf(text).message).toMatch(new RegExp(`^config.pbtxt:${index + 1}:3: `));
      }),
      { numRuns: 200 },
    );
  });
});
