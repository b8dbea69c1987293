import type { FastifyInstance, InjectOptions } from 'fastify';
import { afterEach, describe, expect, it, test } from 'vitest';
import { registerPageRoutes } from '../../../../producer/dashboard/page-routes.ts';
import type { Facade } from '../../../../producer/facade/facade-context.ts';
import { registerHuggingFaceRoutes } from '../../../../producer/facade/huggingface/routes.ts';
import { registerOpenAiRoutes } from '../../../../producer/facade/openai/routes.ts';
import { categoryOf } from '../../../../producer/http/restricted-api.ts';
import type { Preprocessor } from '../../../../producer/preprocess/preprocessor.ts';
import { API_CATEGORIES, parseRestrictions } from '../../../../producer/service/restricted-access.ts';
import { FakeDispatcher, fakeModel } from '../../../support/fake-dispatcher.ts';
import { errorText, testApp } from '../../../support/http-app.ts';

const profiles = { profile: () => Promise.resolve({ task: 'feature-extraction' }) } as unknown as Preprocessor; // all that is reached
const FACADES: Facade[] = [
  (scope) => registerPageRoutes(scope),
  (scope, context) => registerHuggingFaceRoutes(scope, context, profiles),
  (scope, context) => registerOpenAiRoutes(scope, context, profiles),
];
const REQUEST = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] });

let app: FastifyInstance;
afterEach(() => app.close());

function restricted(...rules: string[]): FastifyInstance {
  const restrictions = parseRestrictions('--http-restricted-api', rules);
  app = testApp(new FakeDispatcher([fakeModel('m')]), {}, { facades: FACADES, restrictions });
  return app;
}

/** One call of each route, and the category that it belongs to. */
const CALLS: [InjectOptions & { url: string; method: 'GET' | 'HEAD' | 'POST' }, (typeof API_CATEGORIES)[number]][] = [
  [{ method: 'GET', url: '/v2/health/live' }, 'health'],
  [{ method: 'HEAD', url: '/v2/health/live' }, 'health'],
  [{ method: 'GET', url: '/v2/health/ready' }, 'health'],
  [{ method: 'GET', url: '/v2/models/m/ready' }, 'health'],
  [{ method: 'GET', url: '/v2/models/m/versions/1/ready' }, 'health'],
  [{ method: 'GET', url: '/v2' }, 'metadata'],
  [{ method: 'GET', url: '/v2/models/m' }, 'metadata'],
  [{ method: 'HEAD', url: '/v2/models/m' }, 'metadata'],
  [{ method: 'GET', url: '/v2/models/m/versions/1' }, 'metadata'],
  [{ method: 'GET', url: '/v2/models/m/config' }, 'model-config'],
  [{ method: 'POST', url: '/v2/models/m/infer', payload: REQUEST }, 'inference'],
  [{ method: 'POST', url: '/v2/models/m/versions/1/infer', payload: REQUEST }, 'inference'],
  [{ method: 'POST', url: '/v2/repository/index' }, 'model-repository'],
  [{ method: 'GET', url: '/' }, 'metadata'],
  [{ method: 'GET', url: '/models/m' }, 'metadata'],
  [{ method: 'GET', url: '/v1/models' }, 'metadata'],
  [{ method: 'GET', url: '/v1/models/m' }, 'metadata'],
];

test.each(CALLS)('%j needs the header of its category, and of no other', async (call, category) => {
  restricted(`${category}:key=secret`);
  const status = async (headers: Record<string, string>) =>
    (await app.inject({ ...call, headers: { accept: 'text/html', ...headers } })).statusCode;
  expect(await status({})).toBe(403);
  expect(await status({ key: 'wrong' })).toBe(403);
  expect(await status({ Key: 'secret' })).toBe(200);
  await app.close();
  restricted(`${API_CATEGORIES.filter((name) => name !== category).join(',')}:key=secret`);
  expect(await status({})).toBe(200);
});

describe('a restricted route', () => {
  it('says which header it needs, in the form of every error', async () => {
    restricted('metadata:k1=v1');
    const answer = await app.inject({ method: 'GET', url: '/v2' });
    expect(errorText(answer)).toBe('This API is restricted: metadata needs the header k1 with its value');
  });

  it('refuses before it reads the body', async () => {
    restricted('inference:k1=v1');
    const answer = await app.inject({ method: 'POST', url: '/v2/models/m/infer', payload: 'no JSON at all' });
    expect(answer.statusCode).toBe(403);
  });

  it.each(['/models/m', '/models/m/pipeline/feature-extraction', '/v1/embeddings'])(
    'keeps the models behind %s as well when inference is restricted',
    async (url) => {
      restricted('inference:k1=v1');
      expect((await app.inject({ method: 'POST', url, payload: '{}' })).statusCode).toBe(403);
    },
  );
});

test.each([
  ['/v2/models/:model/generate', 'POST', 'inference'],
  ['/v2/models/:model/versions/:version(^[0-9]+$)/generate_stream', 'POST', 'inference'],
  ['/v2/models/stats', 'GET', 'statistics'],
  ['/v2/models/:model/stats', 'GET', 'statistics'],
  ['/v2/models/:model/versions/:version(^[0-9]+$)/stats', 'GET', 'statistics'],
  ['/v2/repository/models/:model/load', 'POST', 'model-repository'],
  ['/v2/repository/:repository/index', 'POST', 'model-repository'],
  ['/v2/trace/setting', 'POST', 'trace'],
  ['/v2/models/:model/trace/setting', 'GET', 'trace'],
  ['/v2/logging', 'GET', 'logging'],
  ['/v2/systemsharedmemory/status', 'GET', 'shared-memory'],
  ['/v2/systemsharedmemory/region/:region/register', 'POST', 'shared-memory'],
  ['/v2/cudasharedmemory/unregister', 'POST', 'shared-memory'],
  ['/openapi.json', 'GET', 'metadata'],
  ['/docs', 'GET', 'metadata'],
  ['/dashboard/*', 'GET', undefined],
] as const)('%s by %s belongs to %s', (url, method, category) => {
  expect(categoryOf(url, method)).toBe(category);
});
