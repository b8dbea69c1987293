import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import type { FastifyInstance } from 'fastify';
import { registerHuggingFaceRoutes } from '../../../../../producer/facade/huggingface/routes.ts';
import { registerOpenAiRoutes } from '../../../../../producer/facade/openai/routes.ts';
import { listOperations } from '../../../../../producer/facade/openapi/document.ts';
import { encodeOperation } from '../../../../../producer/facade/openapi/operation.ts';
import { registerOpenApiRoutes } from '../../../../../producer/facade/openapi/routes.ts';
import { registerPoolRoutes } from '../../../../../producer/facade/pool/routes.ts';
import type { Pool } from '../../../../../producer/pool/pool-view.ts';
import type { ModelProfile } from '../../../../../producer/preprocess/model-profile.ts';
import type { Preprocessor } from '../../../../../producer/preprocess/preprocessor.ts';
import {
  NO_RESTRICTIONS,
  parseRestrictions,
  type Restrictions,
} from '../../../../../producer/service/restricted-access.ts';
import { InferError } from '../../../../../shared/errors.ts';
import type { ReadyModel } from '../../../../../shared/model/ready-model.ts';
import { FakeDispatcher, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';
import { testApp } from '../../../../support/http-app.ts';
import {
  type OpenApiDocument,
  operationsOf,
  resolveRefs,
  shownBodies,
  structureProblems,
} from '../../../../support/openapi-document.ts';

const MODELS = [
  fakeModel('small', {
    inputs: [
      fakeSpec('x', 'FP32', [-1, 3]),
      fakeSpec('mask', 'BOOL', [-1, -1]),
      fakeSpec('more', 'INT8', [-1], { optional: true }),
    ],
    outputs: [fakeSpec('y', 'FP32', [-1, 3])],
  }),
  fakeModel('large', { inputs: [fakeSpec('x', 'FP32', [-1, 3, 224, 224])] }),
  fakeModel('half', { inputs: [fakeSpec('x', 'FP16', [-1, 2])] }),
  fakeModel('one', { inputs: [fakeSpec('x', 'INT64', [-1, 1])] }),
  fakeModel('words', { inputs: [fakeSpec('x', 'BYTES', [-1, 1])] }),
  fakeModel('embedder', { inputs: [fakeSpec('input_ids', 'INT64', [-1, -1])] }),
  fakeModel('odd {name} é?', { maxBatchSize: 0 }),
  fakeModel('broken'),
];

const profile = (model: ReadyModel): Promise<ModelProfile | undefined> => {
  if (model.name === 'broken') return Promise.reject(new InferError('INVALID_ARGUMENT', 'a bad file'));
  const task = model.name === 'large' ? 'image-classification' : 'feature-extraction';
  if (model.name !== 'large' && model.name !== 'embedder') return Promise.resolve(undefined);
  return Promise.resolve({
    task,
    output: fakeSpec('y', 'FP32', [-1]),
    labels: [],
    scores: 'detect',
    pooling: undefined,
  });
};

let app: FastifyInstance;
let routes: string[];

function start(models: readonly ReadyModel[] = MODELS, restrictions: Restrictions = NO_RESTRICTIONS): void {
  const dispatcher = new FakeDispatcher(models);
  dispatcher.states.push({ name: 'loading', version: '1', state: 'LOADING', reason: '' });
  const preprocessor = { profile } as unknown as Preprocessor; // no other method is reached
  app = testApp(
    dispatcher,
    {},
    {
      restrictions,
      facades: [
        (scope, context) => registerHuggingFaceRoutes(scope, context, preprocessor),
        (scope, context) => registerOpenAiRoutes(scope, context, preprocessor),
        (scope) => registerPoolRoutes(scope, { pool: undefined as unknown as Pool, closed: undefined }), // not called
        (scope, context) => registerOpenApiRoutes(scope, context, { preprocessor, restrictions }),
      ],
    },
  );
  routes = [];
  app.addHook('onRoute', ({ method, url }) => {
    for (const name of typeof method === 'string' ? [method] : method) routes.push(`${name.toLowerCase()} ${url}`);
  });
}

async function readDocument(headers: Record<string, string> = {}): Promise<OpenApiDocument> {
  const answer = await app.inject({ method: 'GET', url: '/openapi.json', headers });
  expect(answer.statusCode).toBe(200);
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
  return answer.json();
}

beforeEach(() => start());
afterEach(() => app.close());

describe('the OpenAPI document', () => {
  it('has the structure of OpenAPI 3.1', async () => {
    const document = await readDocument();
    expect(structureProblems(document)).toEqual([]);
    expect(document.info).toMatchObject({ title: 'Millrace', version: '0.0.0-test' });
  });

  it('describes every route, and no other', async () => {
    await app.ready();
    const own = ['/openapi.json', '/docs'];
    const served = routes
      .filter((route) => !route.startsWith('head ') && !own.some((path) => route.includes(` ${path}`)))
      .filter((route) => !route.endsWith('/*')) // names with slashes, which are refused
      .map((route) => route.replace(/:(\w+)(?:\(.*?\)(?=\/|$))?/g, '{$1}'));
    const described = listOperations([]).map(({ method, path }) => `${method} ${path}`);
    expect(described.sort()).toEqual([...new Set(served)].sort());
  });

  it('tells the header of a job that is over, with errors too', () => {
    const withHeader = listOperations([]).filter(({ answerHeaders }) => answerHeaders?.['millrace-job-state']);
    expect([...new Set(withHeader.map(({ method, path }) => `${method} ${path}`))]).toEqual([
      'post /v2/models/{model}/jobs',
      'post /v2/models/{model}/versions/{version}/jobs',
      'get /jobs/{id}/result',
    ]);
    for (const operation of withHeader) {
      const { responses } = encodeOperation(operation, { header: undefined, tenantKey: false });
      for (const status of ['200', '429', '4XX', '5XX']) {
        expect(responses).toHaveProperty([status, 'headers', 'millrace-job-state']);
      }
    }
  });

  it('uses every schema that it has, and has every one that it uses', async () => {
    const document = await readDocument();
    resolveRefs(document, document.paths);
    const text = JSON.stringify(document.paths);
    for (const name of Object.keys(document.components.schemas)) {
      expect(text).toContain(`"#/components/schemas/${name}"`);
    }
  });

  it('has only examples that its own schemas allow', async () => {
    const document = await readDocument();
    for (const { path, requestBody } of operationsOf(document)) {
      for (const { schema, example, examples = {} } of Object.values(requestBody?.content ?? {})) {
        const check = Compile(Type.Unsafe(resolveRefs(document, schema) as object));
        const values = [
          ...(example === undefined ? [] : [example]),
          ...Object.values(examples).map(({ value }) => value),
        ];
        for (const value of values) expect([path, check.Check(value)]).toEqual([path, true]);
      }
    }
  });

  it('shows the models that are ready, with their inputs and what they do', async () => {
    const { tags, paths } = await readDocument();
    expect(tags.filter(({ name }) => name.startsWith('Model ')).map(({ name }) => name)).toEqual([
      ...MODELS.map(({ name }) => `Model ${name}`),
      'Model repository',
    ]);
    expect(tags[0]?.description).toBe(
      'Takes tensors, version 1, onnxruntime_onnx, at most 8 rows a request. Inputs: `x` FP32 [-1,3], `mask` BOOL [-1,-1], `more` INT8 [-1] (optional). Outputs: `y` FP32 [-1,3].',
    );
    expect(tags[1]?.description).toContain('image-classification');
    expect(Object.keys(paths['/models/large'] ?? {})).toEqual(['post']);
    expect(paths['/models/small']).toBeUndefined();
    expect(paths['/v2/models/broken/infer']).toBeDefined();
    expect(paths['/v2/models/loading/infer']).toBeUndefined();
    expect(paths['/v2/models/odd%20%7Bname%7D%20%C3%A9%3F/infer']).toBeDefined();
  });

  it('shows bodies that can be sent', async () => {
    const bodies = shownBodies(await readDocument());
    expect(bodies.length).toBeGreaterThanOrEqual(12);
    for (const { path, payload, mediaType } of bodies) {
      if (!path.startsWith('/v2/')) continue;
      const answer = await app.inject({ method: 'POST', url: path, payload, headers: { 'content-type': mediaType } });
      expect([path, answer.statusCode]).toEqual([path, 200]);
    }
    const infer = bodies.find(({ path }) => path === '/v2/models/small/infer');
    expect(JSON.parse(infer?.payload ?? '')).toEqual({
      inputs: [
        { name: 'x', datatype: 'FP32', shape: [1, 3], data: [0.5, 0.5, 0.5] },
        { name: 'mask', datatype: 'BOOL', shape: [1, 4], data: [true, true, true, true] },
      ],
    });
    const generate = bodies.find(({ path }) => path === '/v2/models/words/generate');
    expect(JSON.parse(generate?.payload ?? '')).toEqual({ x: 'text' });
    expect(bodies.filter(({ path }) => path === '/v1/embeddings')).toHaveLength(1);
  });

  it('has no tensors as an example where they are too many, or have no JSON form', async () => {
    const { paths } = await readDocument();
    for (const name of ['large', 'half']) {
      expect(paths[`/v2/models/${name}/infer`]?.post?.requestBody?.content['application/json']).not.toHaveProperty(
        'example',
      );
      expect(paths[`/v2/models/${name}/generate`]).toBeUndefined();
    }
  });

  it('lists the first hundred of many models', async () => {
    await app.close();
    start(Array.from({ length: 150 }, (_, i) => fakeModel(`m${i}`)));
    const document = await readDocument();
    expect(document.tags.filter(({ name }) => name.startsWith('Model m'))).toHaveLength(100);
    expect(structureProblems(document)).toEqual([]);
  });

  it('says which calls need a header', async () => {
    await app.close();
    start(MODELS, parseRestrictions('--http-restricted-api', ['inference,health:my-key=secret']));
    const document = await readDocument();
    expect(structureProblems(document)).toEqual([]);
    expect(document.components.securitySchemes).toEqual({
      'my-key': { type: 'apiKey', in: 'header', name: 'my-key' },
    });
    const guarded = operationsOf(document).filter(({ security }) => security !== undefined);
    expect(guarded.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['/v2/models/small/infer', '/models/large', '/v1/embeddings', '/v2/health/live']),
    );
    expect(guarded.map(({ path }) => path)).not.toContain('/v2');
    expect(JSON.stringify(document)).not.toContain('secret');
  });
});

test('the document and the page need the header of metadata where that is restricted', async () => {
  await app.close();
  start(MODELS, parseRestrictions('--http-restricted-api', ['metadata:k=v']));
  for (const url of ['/openapi.json', '/docs', '/docs/swagger-ui.css']) {
    expect((await app.inject({ method: 'GET', url })).statusCode).toBe(403);
    expect((await app.inject({ method: 'GET', url, headers: { k: 'v' } })).statusCode).toBe(200);
  }
});

describe('the page at /docs', () => {
  it('is made of files of this server alone', async () => {
    const page = await app.inject({ method: 'GET', url: '/docs' });
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    expect(page.payload).not.toMatch(/https?:\/\//);
    const files = Array.from(page.payload.matchAll(/(?:src|href)="(docs\/[^"]+)"/g), ([, file]) => file);
    expect(files).toHaveLength(2);
    for (const file of files) {
      const answer = await app.inject({ method: 'GET', url: `/${file}` });
      expect(answer.statusCode).toBe(200);
      expect(answer.rawPayload.length).toBeGreaterThan(100_000);
    }
  });

  it('is found with a slash at the end, too', async () => {
    const answer = await app.inject({ method: 'GET', url: '/docs/' });
    expect(answer.statusCode).toBe(302);
    expect(answer.headers.location).toBe('../docs');
  });

  it('serves no other file', async () => {
    for (const url of ['/docs/index.html', '/docs/..%2fpackage.json', '/docs/swagger-ui.js']) {
      expect((await app.inject({ method: 'GET', url })).statusCode).toBe(404);
    }
  });
});
