import type { SchemaName } from './components.ts';

/** A JSON value of the document. */
export type Json = string | number | boolean | null | readonly Json[] | JsonMap;
export interface JsonMap {
  readonly [key: string]: Json | undefined;
}

/** One call of the API, as the document describes it. */
export interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  /** With `{name}` for each parameter. */
  readonly path: string;
  /** Unique; client generators make function names of it. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly headers?: readonly Json[];
  readonly body?: Body;
  /** What 200 answers: media types and their contents; empty for an empty body. */
  readonly answer: Content;
  /** Headers that any answer may have, those of errors too. */
  readonly answerHeaders?: JsonMap;
  /** Statuses beside 200 that are not in the form of every error. */
  readonly otherAnswers?: JsonMap;
  readonly error?: SchemaName;
}

export interface Body {
  readonly required: boolean;
  readonly content: Content;
}

export type Content = Readonly<Record<string, JsonMap>>;

export function ref(name: SchemaName): JsonMap {
  return { $ref: `#/components/schemas/${name}` };
}

/** A JSON body, with examples by name. */
export function json(schema: JsonMap, examples: Readonly<Record<string, Json>> = {}): Content {
  const [first, ...others] = Object.values(examples);
  if (first === undefined) return { 'application/json': { schema } };
  if (others.length === 0) return { 'application/json': { schema, example: first } };
  const named = Object.entries(examples).map(([name, value]): [string, Json] => [name, { value }]);
  return { 'application/json': { schema, examples: Object.fromEntries(named) } };
}

export const EMPTY: Content = {};

/** A body of bytes, whatever they are. */
export const BINARY: JsonMap = { schema: { type: 'string', format: 'binary' } };

/** Either of these opens what needs a tenant's key; see `KEY_SCHEMES`. */
const TENANT_KEYS = ['bearer', 'apiKey'] as const;

/** How a tenant's key is sent. */
export const KEY_SCHEMES: Readonly<Record<(typeof TENANT_KEYS)[number], JsonMap>> = {
  bearer: { type: 'http', scheme: 'bearer', description: 'the key of a tenant' },
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'the same in a header of its own' },
};

/** What an operation needs of its client. */
export interface OperationAccess {
  /** The header of a restricted category. */
  readonly header: string | undefined;
  /** Whether it needs the key of a tenant. */
  readonly tenantKey: boolean;
}

export function encodeOperation(operation: Operation, access: OperationAccess): JsonMap {
  const { tag, id, summary, description, body, answer, otherAnswers = {}, answerHeaders, error = 'Error' } = operation;
  const content = json(ref(error));
  const failure = (text: string): JsonMap => ({ description: text, headers: answerHeaders, content });
  return {
    tags: [tag],
    operationId: id,
    summary,
    description,
    parameters: [...pathParameters(operation.path), ...(operation.headers ?? [])],
    requestBody: body && { required: body.required, content: body.content },
    responses: {
      200: { description: 'the answer', headers: answerHeaders, content: answer === EMPTY ? undefined : answer },
      ...(access.tenantKey && {
        401: {
          ...failure('no key, or one that is not known'),
          headers: answerHeader('WWW-Authenticate', 'how a key is sent'),
        },
        403: failure('the key does not open this model'),
      }),
      429: {
        ...failure('too much at once, or more than a tenant may have'),
        headers: {
          ...answerHeader(
            'Retry-After',
            'seconds until it is worth another try, 1 to 60 or as a tenant’s rate wants it',
          ),
          ...answerHeaders,
        },
      },
      '4XX': failure('what is wrong with the request'),
      '5XX': failure('what the server cannot do, or not now'),
      ...otherAnswers,
    },
    security: securityOf(access),
  };
}

export function answerHeader(name: string, description: string): JsonMap {
  return { [name]: { description, schema: { type: 'string' } } };
}

function securityOf({ header, tenantKey }: OperationAccess): Json | undefined {
  const own: JsonMap = header === undefined ? {} : { [header]: [] };
  if (tenantKey) return TENANT_KEYS.map((scheme) => ({ ...own, [scheme]: [] }));
  return header === undefined ? undefined : [own];
}

const PARAMETERS: Readonly<Record<string, string>> = {
  model: 'the name of a model',
  version: 'a version of the model',
  repository: 'not looked at: all repositories are one',
  name: 'the id of a worker, its host and process, or its host where only one worker is on it',
  region: 'the name of a shared memory region',
  task: 'what the model does, such as feature-extraction',
  id: 'the id of a job',
};

function pathParameters(path: string): Json[] {
  return Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: PARAMETERS[name],
    schema: name === 'version' ? { type: 'string', pattern: '^[0-9]+$' } : { type: 'string', minLength: 1 },
  }));
}
