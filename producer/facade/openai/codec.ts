import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { InferError } from '../../../shared/errors.ts';
import { isJsonObject } from '../../preprocess/json-file.ts';
import { ParameterError } from './error-reply.ts';

const MAX_TEXTS = 2048;

export const EmbeddingsBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  input: Type.Union([
    Type.String({ minLength: 1 }),
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: MAX_TEXTS }),
  ]),
  // Clients send null for what they leave out.
  encoding_format: Type.Optional(Type.Union([Type.Enum(['float', 'base64']), Type.Null()])),
  dimensions: Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()])),
  user: Type.Optional(Type.Union([Type.String(), Type.Null()])),
});

const embeddingsBody = Compile(EmbeddingsBody);

export interface EmbeddingsRequest {
  readonly model: string;
  readonly texts: readonly string[];
  readonly base64: boolean;
  readonly dimensions: number | undefined;
}

/** What each key must be, for the error text. */
const EXPECTED: Readonly<Record<string, string>> = {
  model: 'must be the name of a model',
  input: `must be a text or a list of 1 to ${MAX_TEXTS} texts, none of them empty`,
  encoding_format: 'must be "float" or "base64"',
  dimensions: 'must be a whole number above 0',
  user: 'must be a text',
};

/** The body of POST /v1/embeddings. @throws ParameterError that names the key */
export function decodeEmbeddingsRequest(body: Buffer): EmbeddingsRequest {
  const value = parse(body);
  if (!embeddingsBody.Check(value)) throw problemOf(value);
  return decode(value);
}

function decode({ model, input, encoding_format, dimensions }: Static<typeof EmbeddingsBody>): EmbeddingsRequest {
  const texts = typeof input === 'string' ? [input] : input;
  return { model, texts, base64: encoding_format === 'base64', dimensions: dimensions ?? undefined };
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new InferError('INVALID_ARGUMENT', 'the body is not valid JSON', { cause: error });
  }
}

function problemOf(value: unknown): InferError {
  if (!isJsonObject(value)) return new InferError('INVALID_ARGUMENT', 'the body must be a JSON object');
  const { input } = value;
  const first: unknown = Array.isArray(input) ? input[0] : undefined;
  if (typeof first === 'number' || Array.isArray(first)) {
    return new ParameterError('input', '"input" holds token numbers, which belong to another tokenizer; send texts');
  }
  const [problem] = embeddingsBody.Errors(value);
  const missing = Object.keys(EXPECTED).find((key) => (key === 'model' || key === 'input') && !(key in value));
  const key = missing ?? problem?.instancePath.split('/')[1] ?? '';
  return new ParameterError(key, `"${key}" ${EXPECTED[key] ?? 'is not as expected'}`);
}
