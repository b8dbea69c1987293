import type { ModelConfig, ModelInput, ModelOutput } from '../proto/generated/model_config_pb.ts';
import { nearestName } from '../nearest-name.ts';
import { datatypeOfConfig } from '../tensor/datatype.ts';
import { formatDims } from './dims.ts';
import { isEnsemble } from './ensemble-graph.ts';
import {
  fillOf,
  PADDING_BUCKETS,
  PADDING_INPUTS,
  PADDING_OUTPUTS,
  PADDING_ROUND_UP,
  PADDING_SELF_TEST,
  type PaddingItem,
  pads,
  parseItems,
  parseLengths,
  roleOf,
  textOf,
  variableAxes,
} from './padding-settings.ts';

const KEYS: readonly string[] = [PADDING_INPUTS, PADDING_OUTPUTS, PADDING_BUCKETS, PADDING_ROUND_UP, PADDING_SELF_TEST];

/** More groups than this would hardly merge anything. */
const MAX_BUCKETS = 64;

/** What is wrong with the parameters that begin with `padding.`, in a completed config. */
export function findPaddingProblems(config: ModelConfig): string[] {
  const problems: string[] = [];
  const written = Object.keys(config.parameters).filter((key) => key.startsWith('padding.'));
  for (const key of written) {
    if (KEYS.includes(key)) continue;
    const nearest = nearestName(key, KEYS);
    problems.push(`parameter "${key}" is not supported${nearest === undefined ? '' : `; did you mean "${nearest}"?`}`);
  }
  if (!pads(config)) {
    const alone = written.filter((key) => KEYS.includes(key));
    return [...problems, ...alone.map((key) => `parameter "${key}" means nothing without ${PADDING_INPUTS}`)];
  }
  problems.push(...valueProblems(config));
  const obstacle = obstacleToPadding(config);
  if (obstacle !== undefined) return [...problems, `parameter "${PADDING_INPUTS}": ${obstacle}`];
  const inputs = parseItems(textOf(config, PADDING_INPUTS) ?? '');
  const outputs = parseItems(textOf(config, PADDING_OUTPUTS) ?? '');
  problems.push(...prefixed(PADDING_INPUTS, inputProblems(config, inputs)));
  problems.push(...prefixed(PADDING_OUTPUTS, outputProblems(config, outputs)));
  return problems;
}

function prefixed(key: string, problems: readonly string[]): string[] {
  return problems.map((problem) => `parameter "${key}": ${problem}`);
}

function valueProblems(config: ModelConfig): string[] {
  const problems: string[] = [];
  const buckets = textOf(config, PADDING_BUCKETS);
  const lengths = buckets === undefined ? [] : parseLengths(buckets);
  if (!lengths) {
    const expected = 'expected rising lengths from 1 up, as in "16,32,64"';
    problems.push(`parameter "${PADDING_BUCKETS}": ${expected}, got "${buckets ?? ''}"`);
  } else if (lengths.length > MAX_BUCKETS) {
    problems.push(`parameter "${PADDING_BUCKETS}": expected at most ${MAX_BUCKETS} lengths, got ${lengths.length}`);
  }
  for (const [key, values] of [
    [PADDING_ROUND_UP, ['true', 'false']],
    [PADDING_SELF_TEST, ['on', 'off']],
  ] as const) {
    const value = textOf(config, key);
    if (value === undefined || values.some((known) => known === value)) continue;
    problems.push(`parameter "${key}": expected "${values.join('" or "')}", got "${value}"`);
  }
  return problems;
}

/** Why requests of this model never share a run, so that padding would do nothing. */
function obstacleToPadding(config: ModelConfig): string | undefined {
  const { maxBatchSize, schedulingChoice } = config;
  if (isEnsemble(config)) return 'an ensemble runs nothing itself; set it on the models of its steps';
  if (schedulingChoice.case === 'sequenceBatching') return 'it does not go with sequence_batching';
  if (maxBatchSize < 1) return `it needs a batch dimension, and max_batch_size is ${maxBatchSize}`;
  if (textOf(config, PADDING_ROUND_UP) === 'true') return undefined;
  if (maxBatchSize === 1) return 'max_batch_size is 1, so no requests share a run; set it to 2 or more';
  if (schedulingChoice.case !== 'dynamicBatching') {
    return 'without dynamic_batching no requests share a run; add dynamic_batching { }';
  }
  return undefined;
}

function inputProblems(config: ModelConfig, items: readonly PaddingItem[]): string[] {
  const problems = tensorProblems('input', items, config.input);
  for (const item of items) {
    const input = config.input.find(({ name }) => name === item.name);
    if (!input) continue;
    const datatype = datatypeOfConfig(input.dataType);
    if (datatype === undefined) continue; // said elsewhere
    if (datatype === 'BYTES') problems.push(`input "${item.name}" is of BYTES, which cannot be padded`);
    else if (item.value === '') problems.push(`"${item.text}": expected ${item.text}=VALUE, mask or generated_mask`);
    else if (!fillOf(datatype, item)) {
      problems.push(`"${item.text}": expected a value of ${datatype}, mask or generated_mask, got "${item.value}"`);
    }
    const others = variableAxes(input).filter((axis) => item.axes && !item.axes.includes(axis));
    if (roleOf(item) === 'generated_mask' && others.length > 0) {
      problems.push(
        `"${item.text}": dims ${formatDims(input.dims)} have another variable length, so it cannot be made up`,
      );
    }
  }
  if (items.length === 0) problems.push('expected a list as "input_ids=0, attention_mask=mask", got none');
  else if (items.every((item) => roleOf(item) === 'generated_mask')) {
    problems.push('expected an input that clients send, got generated masks only');
  }
  return problems;
}

function outputProblems(config: ModelConfig, items: readonly PaddingItem[]): string[] {
  const problems = tensorProblems('output', items, config.output);
  for (const { name, text, value } of items) {
    const output = config.output.find((each) => each.name === name);
    if (value !== '') problems.push(`"${text}": expected the name of an output without a value`);
    if (output && datatypeOfConfig(output.dataType) === 'BYTES') {
      problems.push(`output "${name}" is of BYTES, which cannot be cut`);
    }
  }
  for (const output of config.output) {
    if (!output.dims.includes(-1n) || items.some(({ name }) => name === output.name)) continue;
    const what = `output "${output.name}" has dims ${formatDims(output.dims)} and is not listed`;
    problems.push(`${what}, so its padding would not be cut off; add it`);
  }
  return problems;
}

function tensorProblems(
  kind: 'input' | 'output',
  items: readonly PaddingItem[],
  tensors: readonly (ModelInput | ModelOutput)[],
): string[] {
  const problems: string[] = [];
  const names = tensors.map(({ name }) => name);
  for (const [index, item] of items.entries()) {
    const tensor = tensors.find(({ name }) => name === item.name);
    if (!tensor) {
      const nearest = nearestName(item.name, names);
      const hint = nearest === undefined ? `the ${kind}s are ${names.join(', ')}` : `did you mean "${nearest}"?`;
      problems.push(`${kind} "${item.name}" is not in the config; ${hint}`);
      continue;
    }
    if (items.findIndex(({ name }) => name === item.name) < index)
      problems.push(`${kind} "${item.name}" is listed twice`);
    const problem = axesProblem(item, tensor);
    if (problem !== undefined) problems.push(`${kind} "${item.name}": dims ${formatDims(tensor.dims)} ${problem}`);
  }
  return problems;
}

function axesProblem({ name, axes }: PaddingItem, tensor: ModelInput | ModelOutput): string | undefined {
  const variable = variableAxes(tensor);
  if (variable.length === 0) return 'have no variable length';
  if (!axes) {
    if (variable.length === 1) return undefined;
    return `have ${variable.length} variable lengths; name the one that is meant, as in ${name}[${variable[0] ?? 0}]`;
  }
  for (const axis of axes) {
    if (axis >= tensor.dims.length) return `have no place ${axis}; places count from 0`;
    if (!variable.includes(axis))
      return `have the fixed length ${String(tensor.dims[axis])} at place ${axis}, expected -1`;
  }
  return new Set(axes).size === axes.length ? undefined : 'have a place that is named twice';
}
