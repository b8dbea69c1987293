import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';
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

/** Texts of one request. */
const MAX_TEXTS = 2048;

/** What each parameter must be, for the error text and the document. Texts are always cut to what the model takes. */
const EXPECTED = {
  top_k: 'a whole number above 0',
  function_to_apply: 'softmax, sigmoid or none',
  normalize: 'true or false',
  truncate: 'true',
} as const;

const PARAMETERS = {
  top_k: parameter(Type.Integer({ minimum: 1 }), 'top_k'),
  function_to_apply: parameter(Type.Enum(['softmax', 'sigmoid', 'none']), 'function_to_apply'),
  normalize: parameter(Type.Boolean(), 'normalize'),
  truncate: parameter(Type.Literal(true), 'truncate'),
};

/** Clients send null for what they leave out. */
function parameter<T extends TSchema>(schema: T, name: keyof typeof EXPECTED) {
  return Type.Optional(Type.Union([schema, Type.Null()], { description: EXPECTED[name] }));
}

const TaskParametersBody = Type.Object(PARAMETERS, { additionalProperties: Type.Null() });
const taskParameters = Compile(TaskParametersBody);

/** The JSON form of a request; what `inputs` may be depends on the model. */
export const TaskBody = Type.Object(
  {
    inputs: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1, maxItems: MAX_TEXTS })], {
      description: 'a text, a list of texts, or a picture in base64',
    }),
    parameters: Type.Optional(Type.Union([TaskParametersBody, Type.Null()])),
    options: Type.Optional(Type.Unknown({ description: 'for the machines of the Hub, without effect here' })),
    ...PARAMETERS,
  },
  { additionalProperties: Type.Null() },
);

const NO_PARAMETERS: TaskParameters = { topK: undefined, scores: undefined, normalize: false };

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
  const nested = parameters ?? {};
  if (!isJsonObject(nested)) throw wrong(`"parameters" must be an object, got ${kindOf(parameters)}`);
  const { top_k, function_to_apply, normalize } = { ...checkParameters(beside), ...checkParameters(nested) };
  return { topK: top_k ?? undefined, scores: function_to_apply ?? undefined, normalize: normalize ?? false };
}

function checkParameters(value: JsonObject): Static<typeof TaskParametersBody> {
  if (taskParameters.Check(value)) return value;
  for (const [key, expected] of Object.entries(EXPECTED)) {
    if (value[key] === undefined || taskParameters.Check({ [key]: value[key] })) continue;
    throw wrong(`parameter "${key}" must be ${expected}, got ${JSON.stringify(value[key])}`);
  }
  const unknown = Object.keys(value).find((key) => value[key] !== null && !Object.hasOwn(EXPECTED, key));
  const known = Object.keys(EXPECTED).join(', ');
  throw wrong(`parameter "${shownText(unknown ?? '')}" is not supported; known are ${known}`);
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
