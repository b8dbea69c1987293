import type { ModelConfig, ModelInput, ModelOutput } from '../proto/generated/model_config_pb.ts';
import { type Datatype, datatypeOfConfig } from '../tensor/datatype.ts';
import { encodeElement } from '../tensor/encode-element.ts';

/** Keys of `parameters`; all that begin with `padding.` are Millrace's. */
export const PADDING_INPUTS = 'padding.inputs';
export const PADDING_OUTPUTS = 'padding.outputs';
export const PADDING_BUCKETS = 'padding.length_buckets';
export const PADDING_ROUND_UP = 'padding.round_up';
export const PADDING_SELF_TEST = 'padding.self_test';

/** What is padded: a mask with 0, a generated one is made up where a client leaves it out. */
export type PaddingRole = 'data' | 'mask' | 'generated_mask';

/** A tensor with its dimensions that have the length of the request, as places in its `dims`. */
export interface PaddedTensor {
  readonly name: string;
  readonly axes: readonly number[];
}

export interface PaddedInput extends PaddedTensor {
  readonly role: PaddingRole;
  /** The bytes of one element of padding. */
  readonly fill: Uint8Array;
}

/** How requests of different lengths come to share a run. */
export interface PaddingSettings {
  readonly inputs: readonly PaddedInput[];
  readonly outputs: readonly PaddedTensor[];
  /** Ascending; undefined for powers of two. */
  readonly buckets: readonly number[] | undefined;
  /** Every run has the length of its bucket, that of a lone request too. */
  readonly roundUp: boolean;
  readonly selfTest: boolean;
}

/** An item of a list of tensors as written: `name`, `name=value`, `name[0]=value`. */
export interface PaddingItem {
  readonly text: string;
  readonly name: string;
  /** undefined where none is written: the only variable dimension is meant. */
  readonly axes: readonly number[] | undefined;
  /** '' without one. */
  readonly value: string;
}

/** The settings of a config without problems; undefined for a model that is not padded. */
export function paddingSettingsOf(config: ModelConfig): PaddingSettings | undefined {
  if (!pads(config)) return undefined;
  const buckets = textOf(config, PADDING_BUCKETS);
  return {
    inputs: parseItems(textOf(config, PADDING_INPUTS) ?? '').flatMap((item) => inputOf(config, item)),
    outputs: parseItems(textOf(config, PADDING_OUTPUTS) ?? '').flatMap(({ name, axes }) => {
      const output = config.output.find((each) => each.name === name);
      return output ? [{ name, axes: axes ?? variableAxes(output) }] : [];
    }),
    buckets: buckets === undefined ? undefined : parseLengths(buckets),
    roundUp: textOf(config, PADDING_ROUND_UP) === 'true',
    selfTest: textOf(config, PADDING_SELF_TEST) !== 'off',
  };
}

/** Whether the config asks for padding. */
export function pads(config: ModelConfig): boolean {
  return textOf(config, PADDING_INPUTS) !== undefined;
}

/** Names of the inputs that clients may leave out because the engine makes them up. */
export function generatedInputs(config: ModelConfig): ReadonlySet<string> {
  if (!pads(config)) return NONE;
  const items = parseItems(textOf(config, PADDING_INPUTS) ?? '');
  return new Set(items.filter(({ value }) => value === 'generated_mask').map(({ name }) => name));
}

const NONE: ReadonlySet<string> = new Set();

export function parseItems(text: string): PaddingItem[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(parseItem);
}

/** `=` and the brackets are looked for from the end, as names may hold them. */
function parseItem(text: string): PaddingItem {
  const [, left = text, value = ''] = /^(.*\S)\s*=\s*([^=\s]*)$/.exec(text) ?? [];
  const [, name = left, brackets = ''] = /^(.+?)((?:\[\d{1,3}\])+)$/.exec(left) ?? [];
  const axes = brackets === '' ? undefined : [...brackets.matchAll(/\d+/g)].map(([digits]) => Number(digits));
  return { text, name, axes, value };
}

/** Places in `dims` of the dimensions that may have any length. */
export function variableAxes({ dims }: ModelInput | ModelOutput): number[] {
  return dims.flatMap((dim, axis) => (dim === -1n ? [axis] : []));
}

/** undefined for a list that is none of rising lengths from 1 up. */
export function parseLengths(text: string): number[] | undefined {
  const parts = text.split(',').map((part) => part.trim());
  if (!parts.every((part) => /^\d{1,9}$/.test(part))) return undefined;
  const lengths = parts.map(Number);
  return lengths.every((length, index) => length > (lengths[index - 1] ?? 0)) ? lengths : undefined;
}

export function roleOf({ value }: PaddingItem): PaddingRole {
  return value === 'mask' || value === 'generated_mask' ? value : 'data';
}

/** The bytes of one element of padding; undefined for a value that the datatype cannot hold. */
export function fillOf(datatype: Datatype, item: PaddingItem): Uint8Array | undefined {
  return encodeElement(datatype, roleOf(item) === 'data' ? item.value : '0');
}

function inputOf(config: ModelConfig, item: PaddingItem): PaddedInput[] {
  const input = config.input.find(({ name }) => name === item.name);
  const datatype = input && datatypeOfConfig(input.dataType);
  const fill = datatype && fillOf(datatype, item);
  return input && fill ? [{ name: item.name, axes: item.axes ?? variableAxes(input), role: roleOf(item), fill }] : [];
}

export function textOf({ parameters }: ModelConfig, key: string): string | undefined {
  return Object.hasOwn(parameters, key) ? parameters[key]?.stringValue : undefined;
}
