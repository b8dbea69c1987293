import type { Tensor } from '../../../shared/tensor/tensor.ts';
import type { TextInput, TextPipeline } from './text-pipeline.ts';
import type { EncodedText, TextTokenizer } from './text-tokenizer.ts';

export interface PreparedTexts {
  readonly tensors: readonly Tensor[];
  /** Tokens of each text, padding not counted. */
  readonly tokens: readonly number[];
  /** Where the tokens of each text begin in its row; above 0 where the padding is on the left. */
  readonly starts: readonly number[];
}

/** Texts as the inputs of one request, padded to its longest text. At most `pipeline.maxRows` texts. */
export function prepareTexts(
  texts: readonly string[],
  tokenizer: TextTokenizer,
  pipeline: TextPipeline,
): PreparedTexts {
  const rows = texts.map((text) => tokenizer.encode(text));
  // A model cannot take rows of no tokens: an empty text of a tokenizer without special tokens becomes one padding.
  const longest = Math.max(1, ...rows.map((row) => row.ids.length));
  const length = pipeline.fixedTokens ?? longest;
  const shape = pipeline.batched ? [rows.length, length] : [length];
  const tensors = pipeline.inputs.map((input): Tensor => {
    const data = fill(input, rows, length, pipeline);
    return { name: input.name, datatype: input.datatype, shape, data };
  });
  return {
    tensors,
    tokens: rows.map((row) => row.ids.length),
    starts: rows.map((row) => gapOf(row, length, pipeline)),
  };
}

function fill(input: TextInput, rows: readonly EncodedText[], length: number, pipeline: TextPipeline): Uint8Array {
  const wide = input.datatype === 'INT64';
  // INT64 values are written as their low half; the high half of a small positive number stays 0.
  const step = wide ? 2 : 1;
  const values = new Int32Array(rows.length * length * step);
  rows.forEach((row, index) => {
    const gap = gapOf(row, length, pipeline);
    const start = index * length;
    for (let i = 0; i < length; i++) {
      const token = i - gap;
      const inside = token >= 0 && token < row.ids.length;
      values[(start + i) * step] = valueAt(input, row, token, inside, pipeline);
    }
  });
  return new Uint8Array(values.buffer);
}

function gapOf(row: EncodedText, length: number, { padSide }: TextPipeline): number {
  return padSide === 'left' ? length - row.ids.length : 0;
}

function valueAt(
  input: TextInput,
  row: EncodedText,
  token: number,
  inside: boolean,
  { padId, padTypeId }: TextPipeline,
): number {
  switch (input.name) {
    case 'input_ids':
      return inside ? (row.ids[token] ?? padId) : padId;
    case 'attention_mask':
      return inside ? 1 : 0;
    case 'token_type_ids':
      return inside ? (row.typeIds[token] ?? 0) : padTypeId;
    case 'position_ids':
      return inside ? token : 0;
  }
}
