import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type OpenApiDocument,
  operationsOf,
  resolveRefs,
  shownBodies,
  structureProblems,
} from '../../support/openapi-document.ts';
import { type Examples, serveExamples } from './kit.ts';

let examples: Examples;
let document: OpenApiDocument;

beforeAll(async () => {
  examples = await serveExamples();
  document = (await examples.app.inject({ method: 'GET', url: '/openapi.json' })).json();
});
afterAll(() => examples.close());

/** What is wrong with an answer by the document, or undefined. */
function mismatch(path: string, method: string, mediaType: string, body: unknown): string | undefined {
  const operation = operationsOf(document).find((one) => one.path === path && one.method === method);
  const schema = operation?.responses['200']?.content?.[mediaType]?.schema;
  if (!schema) return `${method} ${path} answers ${mediaType}, which is not described`;
  const check = Compile(Type.Unsafe(resolveRefs(document, schema) as object));
  return check.Check(body) ? undefined : JSON.stringify([...check.Errors(body)].slice(0, 3));
}

test('the document of the example models has the structure of OpenAPI 3.1', () => {
  expect(structureProblems(document)).toEqual([]);
});

test('every body that the document shows is answered with 200, in the form that it describes', async () => {
  const bodies = shownBodies(document);
  const paths = bodies.map(({ path }) => path);
  expect(paths).toEqual(
    expect.arrayContaining([
      '/v2/models/digits_mlp/infer',
      '/v2/models/digits_mlp/generate',
      '/models/efficientnet_lite0_int8',
      '/models/magika',
      '/models/minilm',
      '/v2/models/minilm/infer',
      '/v2/models/minilm/generate',
      '/v1/embeddings',
    ]),
  );
  for (const { path, payload, mediaType } of bodies) {
    const answer = await examples.app.inject({
      method: 'POST',
      url: path,
      payload,
      headers: { 'content-type': mediaType },
    });
    expect([path, answer.statusCode, answer.statusCode === 200 ? '' : answer.payload]).toEqual([path, 200, '']);
    const answered = String(answer.headers['content-type']).split(';', 1)[0] ?? '';
    expect([path, mismatch(path, 'post', answered, answer.json())]).toEqual([path, undefined]);
  }
});

test.each([
  ['/v2', '/v2'],
  ['/v2/models/{model}', '/v2/models/minilm'],
  ['/v2/models/{model}/config', '/v2/models/minilm/config'],
  ['/v2/models/{model}/versions/{version}', '/v2/models/minilm/versions/1'],
  ['/v2/models/stats', '/v2/models/stats'],
  ['/v2/models/{model}/stats', '/v2/models/minilm/stats'],
  ['/v2/trace/setting', '/v2/trace/setting'],
  ['/v2/logging', '/v2/logging'],
  ['/v2/systemsharedmemory/status', '/v2/systemsharedmemory/status'],
  ['/models/{model}', '/models/digits_mlp'],
  ['/models/{model}', '/models/magika'],
  ['/v1/models', '/v1/models'],
  ['/v1/models/{model}', '/v1/models/minilm'],
])('GET %s answers as the document says', async (path, url) => {
  const answer = await examples.app.inject({ method: 'GET', url });
  expect(answer.statusCode).toBe(200);
  expect(mismatch(path, 'get', 'application/json', answer.json())).toBeUndefined();
});

test('the repository index answers as the document says', async () => {
  const answer = await examples.app.inject({ method: 'POST', url: '/v2/repository/index' });
  expect(mismatch('/v2/repository/index', 'post', 'application/json', answer.json())).toBeUndefined();
});
