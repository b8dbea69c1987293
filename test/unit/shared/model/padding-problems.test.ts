import { describe, expect, it } from 'vitest';
import { readConfigFields } from '../../../../shared/model/config-fields.ts';
import { findPaddingProblems } from '../../../../shared/model/padding-problems.ts';
import { generatedInputs, paddingSettingsOf } from '../../../../shared/model/padding-settings.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { fieldOfProblem } from '../../../../shared/model/problem-place.ts';

const TENSORS = `
  input { name: "input_ids" data_type: TYPE_INT64 dims: -1 }
  input { name: "attention_mask" data_type: TYPE_INT64 dims: -1 }
  input { name: "frames" data_type: TYPE_FP32 dims: [ -1, 64 ] }
  input { name: "grid" data_type: TYPE_FP32 dims: [ -1, -1 ] }
  input { name: "texts" data_type: TYPE_STRING dims: -1 }
  input { name: "fixed" data_type: TYPE_FP32 dims: 4 }
  input { name: "tiny" data_type: TYPE_UINT8 dims: -1 }
  input { name: "half" data_type: TYPE_FP16 dims: -1 }`;
const OUTPUT = 'output { name: "y" data_type: TYPE_FP32 dims: 4 }';
const BATCHING = 'max_batch_size: 8 dynamic_batching { }';

function parameters(values: Record<string, string>): string {
  return Object.entries(values)
    .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
    .join('\n');
}

function problemsOf(values: Record<string, string>, { batching = BATCHING, output = OUTPUT } = {}): string[] {
  return findPaddingProblems(
    parseModelConfig(`${batching} ${TENSORS} ${output} ${parameters(values)}`, 'config.pbtxt'),
  );
}

const ofInputs = (list: string) => problemsOf({ 'padding.inputs': list });

describe('the padding parameters of a config', () => {
  it('name inputs with their values and masks, outputs, buckets', () => {
    const text = parameters({
      'padding.inputs': 'input_ids=1, attention_mask = generated_mask,frames[0]=-0.5, half=1',
      'padding.outputs': 'h',
      'padding.length_buckets': '16, 32,64',
      'padding.round_up': 'true',
    });
    const output = 'output { name: "h" data_type: TYPE_FP32 dims: [ -1, 4 ] }';
    const config = parseModelConfig(`${BATCHING} ${TENSORS} ${output} ${text}`, 'config.pbtxt');
    expect(findPaddingProblems(config)).toEqual([]);
    expect(paddingSettingsOf(config)).toEqual({
      inputs: [
        { name: 'input_ids', axes: [0], role: 'data', fill: new Uint8Array([1, 0, 0, 0, 0, 0, 0, 0]) },
        { name: 'attention_mask', axes: [0], role: 'generated_mask', fill: new Uint8Array(8) },
        { name: 'frames', axes: [0], role: 'data', fill: new Uint8Array([0, 0, 0, 0xbf]) },
        { name: 'half', axes: [0], role: 'data', fill: new Uint8Array([0, 0x3c]) },
      ],
      outputs: [{ name: 'h', axes: [0] }],
      buckets: [16, 32, 64],
      roundUp: true,
      selfTest: true,
    });
    expect([...generatedInputs(config)]).toEqual(['attention_mask']);
  });

  it('are absent for a model that does not ask for padding', () => {
    const config = parseModelConfig(`${BATCHING} ${TENSORS} ${OUTPUT}`, 'config.pbtxt');
    expect(findPaddingProblems(config)).toEqual([]);
    expect(paddingSettingsOf(config)).toBeUndefined();
    expect(generatedInputs(config).size).toBe(0);
  });

  it.each([
    ['input_id=0', /input "input_id" is not in the config; did you mean "input_ids"\?/],
    ['zzz=0', /input "zzz" is not in the config; the inputs are input_ids, /],
    ['input_ids=0, input_ids=1', /input "input_ids" is listed twice/],
    ['fixed=0', /input "fixed": dims \[ 4 \] have no variable length/],
    ['frames[1]=0', /input "frames": dims \[ -1, 64 \] have the fixed length 64 at place 1, expected -1/],
    ['frames[2]=0', /input "frames": dims \[ -1, 64 \] have no place 2/],
    ['grid=0', /input "grid": dims \[ -1, -1 \] have 2 variable lengths; name the one that is meant, as in grid\[0\]/],
    ['grid[0][0]=0', /have a place that is named twice/],
    ['grid[0]=generated_mask, input_ids=0', /have another variable length, so it cannot be made up/],
    ['texts=0', /input "texts" is of BYTES, which cannot be padded/],
    ['input_ids', /"input_ids": expected input_ids=VALUE, mask or generated_mask/],
    ['input_ids=0.5', /"input_ids=0.5": expected a value of INT64, mask or generated_mask, got "0.5"/],
    ['tiny=256', /expected a value of UINT8/],
    ['half=0.1', /expected a value of FP16/],
    ['frames[0]=nothing', /expected a value of FP32/],
    ['attention_mask=generated_mask', /expected an input that clients send, got generated masks only/],
    ['', /expected a list as "input_ids=0, attention_mask=mask", got none/],
  ])('refuse inputs %j', (list, expected) => {
    expect(ofInputs(list)).toEqual([expect.stringMatching(expected)]);
    expect(ofInputs(list)[0]).toMatch(/^parameter "padding\.inputs": /);
  });

  it.each([
    ['padding.length_bucket', '16', /is not supported; did you mean "padding.length_buckets"\?/],
    ['padding.length_buckets', '32,16', /expected rising lengths from 1 up, as in "16,32,64", got "32,16"/],
    ['padding.length_buckets', '0,16', /expected rising lengths/],
    ['padding.length_buckets', '', /expected rising lengths/],
    ['padding.round_up', 'yes', /expected "true" or "false", got "yes"/],
    ['padding.self_test', 'no', /expected "on" or "off", got "no"/],
    ['padding.outputs', 'x', /output "x" is not in the config/],
    ['padding.outputs', 'y', /output "y": dims \[ 4 \] have no variable length/],
  ])('refuse %s %j', (key, value, expected) => {
    const problems = problemsOf({ 'padding.inputs': 'input_ids=0', [key]: value });
    expect(problems.join('; ')).toMatch(expected);
    expect(problems[0]).toMatch(new RegExp(`^parameter "${key}"`));
  });

  it('refuse more buckets than help', () => {
    const list = Array.from({ length: 65 }, (_, index) => index + 1).join();
    const problems = problemsOf({ 'padding.inputs': 'input_ids=0', 'padding.length_buckets': list });
    expect(problems).toEqual([expect.stringContaining('expected at most 64 lengths, got 65')]);
  });

  it('refuse an output of variable length that is not listed, or is no number', () => {
    const output = 'output { name: "h" data_type: TYPE_FP32 dims: [ -1, 4 ] }';
    expect(problemsOf({ 'padding.inputs': 'input_ids=0' }, { output })).toEqual([
      expect.stringMatching(/^parameter "padding\.outputs": output "h" has dims \[ -1, 4 \] and is not listed/),
    ]);
    expect(problemsOf({ 'padding.inputs': 'input_ids=0', 'padding.outputs': 'h' }, { output })).toEqual([]);
    expect(problemsOf({ 'padding.inputs': 'input_ids=0', 'padding.outputs': 'h=0' }, { output })).toEqual([
      expect.stringContaining('expected the name of an output without a value'),
    ]);
    const texts = 'output { name: "h" data_type: TYPE_STRING dims: [ -1 ] }';
    expect(problemsOf({ 'padding.inputs': 'input_ids=0', 'padding.outputs': 'h' }, { output: texts })).toEqual([
      expect.stringContaining('output "h" is of BYTES, which cannot be cut'),
    ]);
  });

  it.each([
    ['max_batch_size: 0', /it needs a batch dimension, and max_batch_size is 0/],
    ['max_batch_size: 1 dynamic_batching { }', /max_batch_size is 1, so no requests share a run/],
    ['max_batch_size: 8', /without dynamic_batching no requests share a run; add dynamic_batching \{ \}/],
    ['max_batch_size: 8 sequence_batching { }', /it does not go with sequence_batching/],
    ['max_batch_size: 8 ensemble_scheduling { }', /an ensemble runs nothing itself/],
  ])('refuse padding that would do nothing: %s', (batching, expected) => {
    expect(problemsOf({ 'padding.inputs': 'input_ids=0' }, { batching })).toEqual([expect.stringMatching(expected)]);
  });

  it('let a model round up that merges nothing, for the sake of equal shapes', () => {
    const values = { 'padding.inputs': 'input_ids=0', 'padding.round_up': 'true' };
    expect(problemsOf(values, { batching: 'max_batch_size: 1' })).toEqual([]);
  });

  it('refuse settings without inputs', () => {
    expect(problemsOf({ 'padding.outputs': 'y', 'padding.round_up': 'true' })).toEqual([
      'parameter "padding.outputs" means nothing without padding.inputs',
      'parameter "padding.round_up" means nothing without padding.inputs',
    ]);
  });

  it('are found in the text of the config', () => {
    const text = `${BATCHING}\n${TENSORS}\n${OUTPUT}\n${parameters({ 'padding.inputs': 'fixed=0' })}`;
    const [problem] = findPaddingProblems(parseModelConfig(text, 'config.pbtxt'));
    const field = fieldOfProblem(readConfigFields(text), problem!);
    expect(text.slice(field!.start, field!.end)).toBe('string_value: "fixed=0"');
  });
});
