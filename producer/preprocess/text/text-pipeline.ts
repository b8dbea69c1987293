import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import { isJsonObject, parseJsonObject, type JsonObject } from '../json-file.ts';

/** The inputs of a text model that a tokenizer can fill. */
export const TEXT_INPUTS = ['input_ids', 'attention_mask', 'token_type_ids', 'position_ids'] as const;
export type TextInputName = (typeof TEXT_INPUTS)[number];

export interface TextInput {
  readonly name: TextInputName;
  readonly datatype: 'INT64' | 'INT32';
}

/** Everything that turns texts into a model's inputs: plain data, so that it can travel to another thread. */
export interface TextPipeline {
  readonly inputs: readonly TextInput[];
  /** Texts of one request at most; 1 for a model without batch dimension. */
  readonly maxRows: number;
  /** Whether a batch dimension stands in front of the tokens. */
  readonly batched: boolean;
  /** Longer texts are cut to this many tokens, those around the text (as [CLS] and [SEP]) included. */
  readonly maxTokens: number;
  /** Every row is padded to this; undefined: to the longest row of its request. */
  readonly fixedTokens: number | undefined;
  readonly padId: number;
  readonly padTypeId: number;
  readonly padSide: 'left' | 'right';
  readonly cutSide: 'left' | 'right';
  /** The contents of tokenizer.json and tokenizer_config.json. */
  readonly tokenizerJson: string;
  readonly tokenizerConfigJson: string;
}

/** The files of a Hugging Face export that matter; '' for one that is not there. */
export interface TextFiles {
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
  readonly sentenceBertConfig: string;
  readonly modelConfig: string;
}

/** Rows per request of a model that takes batches of any size. */
const ROWS_OF_UNBOUNDED_BATCH = 32;
/** Where no file says how much text the model takes, and against numbers such as 10^30 that stand for "no limit". */
const DEFAULT_MAX_TOKENS = 512;
const SANE_MAX_TOKENS = 1_000_000;

/**
 * Reads how texts become tokens. The truncation and padding that tokenizer.json itself may ask for are not taken: they
 * are what its author last used, not what the model can do.
 * @throws InferError INVALID_ARGUMENT when the files or the model's inputs do not fit.
 */
export function parseTextPipeline(files: TextFiles, model: ReadyModel): TextPipeline {
  const tokenizer = parseJsonObject(files.tokenizer, 'tokenizer.json');
  const tokenizerConfig = parseOptional(files.tokenizerConfig, 'tokenizer_config.json');
  const sentenceBert = parseOptional(files.sentenceBertConfig, 'sentence_bert_config.json');
  const modelConfig = parseOptional(files.modelConfig, 'config.json');
  const inputs = model.inputs.filter((input) => isTextInput(input.name) || !input.optional);
  const { batched, fixedTokens } = commonShape(inputs, model);
  const limit =
    tokenCount(sentenceBert['max_seq_length']) ??
    tokenCount(tokenizerConfig['model_max_length']) ??
    tokenCount(modelConfig['max_position_embeddings']) ??
    DEFAULT_MAX_TOKENS;
  const padding = isJsonObject(tokenizer['padding']) ? tokenizer['padding'] : {};
  return {
    inputs: inputs.map((input) => textInput(input, model)),
    maxRows: batched ? model.maxBatchSize || (inputs[0]?.shape[0] === 1 ? 1 : ROWS_OF_UNBOUNDED_BATCH) : 1,
    batched,
    maxTokens: Math.min(limit, fixedTokens ?? limit),
    fixedTokens,
    padId: padId(padding, tokenizer, tokenizerConfig, modelConfig),
    padTypeId: typeof padding['pad_type_id'] === 'number' ? padding['pad_type_id'] : 0,
    padSide: tokenizerConfig['padding_side'] === 'left' ? 'left' : 'right',
    cutSide: tokenizerConfig['truncation_side'] === 'left' ? 'left' : 'right',
    tokenizerJson: files.tokenizer,
    tokenizerConfigJson: files.tokenizerConfig === '' ? '{}' : files.tokenizerConfig,
  };
}

export function isTextInput(name: string): name is TextInputName {
  return (TEXT_INPUTS as readonly string[]).includes(name);
}

function textInput({ name, datatype }: TensorSpec, model: ReadyModel): TextInput {
  if (!isTextInput(name)) {
    throw wrong(model, `has an input "${name}", which no tokenizer makes; known are ${TEXT_INPUTS.join(', ')}`);
  }
  if (datatype === 'INT64' || datatype === 'INT32') return { name, datatype };
  throw wrong(model, `takes "${name}" as ${datatype}; a tokenizer gives INT64 or INT32`);
}

function commonShape(inputs: readonly TensorSpec[], model: ReadyModel): Pick<TextPipeline, 'batched' | 'fixedTokens'> {
  const rank = inputs[0]?.shape.length;
  if ((rank !== 1 && rank !== 2) || inputs.some((input) => input.shape.length !== rank)) {
    throw wrong(model, 'must take its tokens as tensors [tokens] or [batch, tokens], all alike');
  }
  const lengths = new Set(inputs.map((input) => input.shape.at(-1) ?? -1).filter((length) => length !== -1));
  if (lengths.size > 1) throw wrong(model, `takes inputs of different lengths: ${[...lengths].join(', ')}`);
  if (rank === 2 && model.maxBatchSize === 0 && inputs.some(({ shape }) => shape[0] !== -1 && shape[0] !== 1)) {
    throw wrong(model, 'takes batches of one fixed size; expected 1 or any');
  }
  return { batched: rank === 2, fixedTokens: [...lengths][0] };
}

function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= SANE_MAX_TOKENS
    ? value
    : undefined;
}

function padId(
  padding: JsonObject,
  tokenizer: JsonObject,
  tokenizerConfig: JsonObject,
  modelConfig: JsonObject,
): number {
  if (typeof padding['pad_id'] === 'number') return padding['pad_id'];
  const token = tokenizerConfig['pad_token'];
  const content = isJsonObject(token) ? token['content'] : token;
  const added = Array.isArray(tokenizer['added_tokens']) ? tokenizer['added_tokens'].filter(isJsonObject) : [];
  const id = added.find((entry) => entry['content'] === content)?.['id'];
  if (typeof id === 'number') return id;
  return typeof modelConfig['pad_token_id'] === 'number' ? modelConfig['pad_token_id'] : 0;
}

function parseOptional(text: string, file: string): JsonObject {
  return text === '' ? {} : parseJsonObject(text, file);
}

function wrong(model: ReadyModel, what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `model "${model.name}" ${what}`);
}
