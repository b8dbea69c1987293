import { InferError } from '../../../shared/errors.ts';
import { isJsonObject, type JsonObject } from '../../preprocess/json-file.ts';
import type { ModelTask } from '../../preprocess/model-profile.ts';
import type { ScoreFunction } from '../../tasks/scores.ts';

/** The `parameters` of a request that have a meaning here. */
export interface TaskParameters {
  readonly topK: number | undefined;
  readonly scores: ScoreFunction | undefined;
  readonly normalize: boolean;
}

export type TaskRequest =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array; readonly parameters: TaskParameters }
  | {
      readonly kind: 'texts';
      readonly texts: readonly string[];
      /** A single text is answered by itself, not as a list of one. */
      readonly single: boolean;
      readonly parameters: TaskParameters;
    };

const NO_PARAMETERS: TaskParameters = { topK: undefined, scores: undefined, normalize: false };

/** Texts of one request. */
const MAX_TEXTS = 2048;

/**
 * A body as the Hugging Face Inference API takes it: the bytes of a file, or JSON `{"inputs": …, "parameters": …}`. For
 * a model of file types every body is the file itself, JSON too.
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeTaskRequest(task: ModelTask, body: Buffer, contentType: string): TaskRequest {
  if (task === 'file-type') return { kind: 'bytes', bytes: body, parameters: NO_PARAMETERS };
  const forTexts = task === 'feature-extraction' || task === 'text-classification';
  if (!isJson(body, contentType)) {
    if (!forTexts) return { kind: 'bytes', bytes: body, parameters: NO_PARAMETERS };
    return { kind: 'texts', texts: [plainText(body)], single: true, parameters: NO_PARAMETERS };
  }
  const { inputs, parameters, ...beside } = parseBody(body);
  // `options` are about caches and waiting for the Hub's machines.
  const decoded = decodeParameters(parameters, { ...beside, options: null });
  if (forTexts) return { kind: 'texts', ...decodeTexts(inputs), parameters: decoded };
  return { kind: 'bytes', bytes: decodeBase64(inputs), parameters: decoded };
}

/** curl sends JSON under the content type of a form, so a brace at the start is enough. */
function isJson(body: Buffer, contentType: string): boolean {
  if (body.length === 0) return false;
  return /^application\/json\b/i.test(contentType) || /^\s*\{/.test(body.toString('latin1', 0, 64));
}

function plainText(body: Buffer): string {
  const text = body.toString('utf8');
  if (text.trim() === '') throw wrong('the body is empty, expected a text or {"inputs": "a text"}');
  return text;
}

function parseBody(body: Buffer): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new InferError('INVALID_ARGUMENT', 'the body is not valid JSON', { cause: error });
  }
  if (isJsonObject(value)) return value;
  throw wrong('the body must be a JSON object {"inputs": …}');
}

function decodeTexts(inputs: unknown): { texts: string[]; single: boolean } {
  if (typeof inputs === 'string') return { texts: [inputs], single: true };
  const texts: unknown[] = Array.isArray(inputs) ? inputs : [];
  if (texts.length === 0) throw wrong(`"inputs" must be a text or a list of texts, got ${kindOf(inputs)}`);
  if (texts.length > MAX_TEXTS) throw wrong(`"inputs" has ${texts.length} texts, at most ${MAX_TEXTS} allowed`);
  return { texts: texts.map(requireText), single: false };
}

function requireText(value: unknown, index: number): string {
  if (typeof value === 'string') return value;
  throw wrong(`"inputs"[${index}] must be a text, got ${kindOf(value)}`);
}

function decodeBase64(inputs: unknown): Uint8Array {
  if (typeof inputs !== 'string') throw wrong(`"inputs" must be a picture in base64, got ${kindOf(inputs)}`);
  if (/^https?:\/\//i.test(inputs)) throw wrong('"inputs" is an address; pictures are not fetched, send their bytes');
  const base64 = inputs.replace(/^data:[^,]{0,200};base64,/, '').replace(/\s+/g, '');
  if (/^[A-Za-z0-9+/_-]*={0,2}$/.test(base64)) return Buffer.from(base64, 'base64');
  throw wrong('"inputs" must be a picture in base64');
}

/** Clients put parameters under `parameters`, or for vectors beside `inputs`. */
function decodeParameters(parameters: unknown, beside: JsonObject): TaskParameters {
  if (!isJsonObject(parameters ?? {})) throw wrong(`"parameters" must be an object, got ${kindOf(parameters)}`);
  const value: JsonObject = { ...beside, ...(parameters as JsonObject | null | undefined) }; // checked above
  for (const key of Object.keys(value)) {
    if (value[key] === null || KNOWN_PARAMETERS.includes(key)) continue;
    throw wrong(`parameter "${key}" is not supported; known are ${KNOWN_PARAMETERS.join(', ')}`);
  }
  // Texts are always cut to what the model takes.
  if (value['truncate'] === false) throw wrong('parameter "truncate" cannot be false');
  return {
    topK: topK(value['top_k'] ?? undefined),
    scores: scoreFunction(value['function_to_apply'] ?? undefined),
    normalize: flag(value['normalize'] ?? false),
  };
}

const KNOWN_PARAMETERS = ['top_k', 'function_to_apply', 'normalize', 'truncate'];

function topK(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1) return value;
  throw wrong(`parameter "top_k" must be a whole number above 0, got ${JSON.stringify(value)}`);
}

function scoreFunction(value: unknown): ScoreFunction | undefined {
  if (value === undefined) return undefined;
  if (value === 'softmax' || value === 'sigmoid' || value === 'none') return value;
  throw wrong(`parameter "function_to_apply" must be softmax, sigmoid or none, got ${JSON.stringify(value)}`);
}

function flag(value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw wrong(`parameter "normalize" must be true or false, got ${JSON.stringify(value)}`);
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function wrong(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
