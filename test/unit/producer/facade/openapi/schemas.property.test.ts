import fc from 'fast-check';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { decodeTaskRequest, TaskBody } from '../../../../../producer/facade/huggingface/codec.ts';
import { decodeEmbeddingsRequest, EmbeddingsBody } from '../../../../../producer/facade/openai/codec.ts';
import { GenerateRequestBody, InferRequestBody } from '../../../../../producer/facade/openapi/infer-schemas.ts';
import { decodeInferRequest } from '../../../../../producer/facade/triton-http/codec.ts';
import { decodeGenerateRequest } from '../../../../../producer/facade/triton-http/generate-codec.ts';
import { HeadCache } from '../../../../../producer/facade/triton-http/head-cache.ts';
import { Admission } from '../../../../../producer/service/admission.ts';
import { SharedMemory } from '../../../../../producer/service/shared-memory.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';

/*
 * The schemas of the document against what really decodes the bodies. Whatever a decoder takes, its schema allows: so a
 * body that the schema refuses is refused. Whatever the schema allows, the decoder takes or refuses with a code of ours.
 */

const memory = new SharedMemory({
  enabled: true,
  admission: new Admission({ maxRequestsInFlight: 1, maxBytesInFlight: 1_000_000 }),
});
const model = fakeModel('m', {
  maxBatchSize: 0,
  inputs: [fakeSpec('x', 'FP32', [-1]), fakeSpec('b', 'BOOL', [-1]), fakeSpec('t', 'BYTES', [-1])],
});

const infer = (body: unknown) => decodeInferRequest(encode(body), undefined, model, '', new HeadCache(), memory);
const generate = (body: unknown) => decodeGenerateRequest(encode(body), model, '');
const text = (body: unknown) => decodeTaskRequest('feature-extraction', encode(body), 'application/json');
const image = (body: unknown) => decodeTaskRequest('image-classification', encode(body), 'application/json');
const embeddings = (body: unknown) => decodeEmbeddingsRequest(encode(body));

const GOOD_INFER = {
  id: 'a',
  inputs: [
    { name: 'x', datatype: 'FP32', shape: [2], data: [1, 2.5] },
    { name: 'b', datatype: 'BOOL', shape: [1, 2], data: [[true, false]] },
    { name: 't', datatype: 'BYTES', shape: [], data: ['a'] },
    { name: 'x', datatype: 'FP32', shape: [0], parameters: { binary_data_size: 0 } },
    { name: 'x', datatype: 'FP32', shape: [1], parameters: { shared_memory_region: 'r', shared_memory_byte_size: 4 } },
  ],
  outputs: [
    { name: 'y', parameters: { binary_data: true } },
    { name: 'z', parameters: { classification: 3 } },
    { name: 'v', parameters: { shared_memory_region: 'r', shared_memory_byte_size: 4, shared_memory_offset: 8 } },
    { name: 'w' },
  ],
  parameters: {
    binary_data_output: false,
    timeout: 5,
    priority: 1,
    sequence_id: 'a',
    sequence_start: true,
    other: 0.5,
  },
};
const GOOD_GENERATE = { id: 'a', x: [1, 2], b: true, t: 'text', stream: false, parameters: { temperature: 0.5 } };
const GOOD_TASK = {
  inputs: ['a', 'b'],
  parameters: { top_k: 3, function_to_apply: 'none', normalize: true, truncate: true },
  options: { wait_for_model: true },
  normalize: null,
};
const GOOD_EMBEDDINGS = { model: 'm', input: ['a'], encoding_format: 'base64', dimensions: 3, user: 'me' };

test.each<[string, TSchema, (body: unknown) => unknown, unknown]>([
  ['infer', InferRequestBody, infer, { ...GOOD_INFER, inputs: GOOD_INFER.inputs.slice(0, 3) }],
  ['infer with every form of a tensor', InferRequestBody, infer, GOOD_INFER],
  ['generate', GenerateRequestBody, generate, GOOD_GENERATE],
  ['a text task', TaskBody, text, GOOD_TASK],
  ['a text task with one text', TaskBody, text, { inputs: 'a', top_k: 3 }],
  ['an image task', TaskBody, image, { ...GOOD_TASK, inputs: 'aGVsbG8=' }],
  ['embeddings', EmbeddingsBody, embeddings, GOOD_EMBEDDINGS],
])('the schema of %s allows what is taken, and what it allows is never a surprise', (_name, schema, decode, good) => {
  const check = Compile(schema);
  expect(check.Check(good)).toBe(true);
  let taken = 0;
  fc.assert(
    fc.property(mutations(good), (body) => {
      const allowed = check.Check(body);
      const problem = problemOf(decode, body);
      if (problem === undefined) taken++;
      if (problem === undefined && !allowed) throw new Error('taken, but not allowed by its schema');
    }),
    { numRuns: 1500 },
  );
  // Otherwise nothing was shown. The regions of the one request that names some do not exist.
  if (problemOf(decode, good) === undefined) expect(taken).toBeGreaterThan(100);
});

/** undefined when the body is taken. @throws what is not a refusal */
function problemOf(decode: (body: unknown) => unknown, body: unknown): string | undefined {
  try {
    decode(body);
    return undefined;
  } catch (error) {
    if (error instanceof InferError && ['INVALID_ARGUMENT', 'NOT_FOUND', 'UNIMPLEMENTED'].includes(error.code)) {
      return error.message;
    }
    throw error;
  }
}

/** A good body with up to three places changed: another value, a key more, or a key less. */
function mutations(good: unknown): fc.Arbitrary<unknown> {
  const change = fc.record({ at: fc.nat(), how: fc.constantFrom('replace', 'remove', 'add'), value: oddValue() });
  return fc.array(change, { maxLength: 3 }).map((changes) => {
    let body = structuredClone(good);
    for (const { at, how, value } of changes) {
      const places = placesOf(body);
      const place = places[at % places.length];
      if (!place) body = value;
      else if (how === 'replace') place.holder[place.key] = structuredClone(value);
      else if (how === 'remove') Reflect.deleteProperty(place.holder, place.key);
      else place.holder[`${place.key}_`] = structuredClone(value);
    }
    return JSON.parse(JSON.stringify(body)) as unknown; // as it comes out of a request
  });
}

function oddValue(): fc.Arbitrary<unknown> {
  return fc.oneof(
    fc.constantFrom<unknown>(
      null,
      true,
      false,
      0,
      1,
      -1,
      0.5,
      2 ** 53,
      1e300,
      '',
      'a',
      'NaN',
      [],
      {},
      [1],
      ['a'],
      [[1]],
    ),
    fc.constantFrom<unknown>('FP32', 'INT64', 'BF16', 'float32', [null], [{}], { data: [1] }, 'x'.repeat(1025)),
    fc.jsonValue({ maxDepth: 2 }),
  );
}

interface Place {
  readonly holder: Record<string, unknown>;
  readonly key: string;
}

/** Every place of a JSON value where a value stands; undefined for the value itself. */
function placesOf(value: unknown): (Place | undefined)[] {
  return [undefined, ...placesInside(value)];
}

function placesInside(value: unknown): Place[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((key) => [{ holder, key }, ...placesInside(holder[key])]);
}

function encode(body: unknown): Buffer {
  return Buffer.from(JSON.stringify(body));
}
