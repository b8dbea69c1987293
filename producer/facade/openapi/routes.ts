import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { FastifyInstance } from 'fastify';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import type { Preprocessor } from '../../preprocess/preprocessor.ts';
import type { Restrictions } from '../../service/restricted-access.ts';
import type { FacadeContext } from '../facade-context.ts';
import { buildDocument } from './document.ts';
import type { ListedModel } from './model-operations.ts';

/** A document of thousands of models helps nobody; the others are called by the same paths with their own names. */
const MAX_LISTED_MODELS = 100;

export interface OpenApiOptions {
  readonly preprocessor: Pick<Preprocessor, 'profile'>;
  readonly restrictions: Restrictions;
}

/** The OpenAPI document of this server at `/openapi.json`, and Swagger UI over it at `/docs`, all of it from here. */
export function registerOpenApiRoutes(
  app: FastifyInstance,
  { catalog, version, tenants }: FacadeContext,
  { preprocessor, restrictions }: OpenApiOptions,
): void {
  app.get('/openapi.json', async (_request, reply) => {
    const models = await listModels(catalog, preprocessor);
    const text = JSON.stringify(buildDocument({ version, models, restrictions, tenantKeys: tenants !== undefined }));
    return reply.header('content-type', 'application/json').header('cache-control', 'no-cache').send(text);
  });
  registerPage(app);
}

/** The models that are ready, in their default version. */
async function listModels(catalog: ModelCatalog, preprocessor: Pick<Preprocessor, 'profile'>): Promise<ListedModel[]> {
  const ready = catalog.list().filter(({ state }) => state === 'READY');
  const names = [...new Set(ready.map(({ name }) => name))].slice(0, MAX_LISTED_MODELS);
  const models = await Promise.all(names.map((name) => describe(catalog, preprocessor, name)));
  return models.filter((model) => model !== undefined);
}

async function describe(
  catalog: ModelCatalog,
  preprocessor: Pick<Preprocessor, 'profile'>,
  name: string,
): Promise<ListedModel | undefined> {
  let listed: ListedModel | undefined;
  try {
    const model = catalog.resolve(name, '');
    listed = { model, task: undefined };
    return { model, task: (await preprocessor.profile(model))?.task };
  } catch {
    // It went away meanwhile; or its files are wrong, and then it takes tensors all the same.
    return listed;
  }
}

const ASSETS: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
};

function registerPage(app: FastifyInstance): void {
  const page = readFileSync(new URL('./docs.html', import.meta.url), 'utf8');
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': contentSecurityPolicy(page),
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
  app.get('/docs', (_request, reply) => reply.headers(headers).send(page));
  app.get('/docs/', (_request, reply) => reply.redirect('../docs'));
  const { resolve } = createRequire(import.meta.url);
  for (const [name, type] of Object.entries(ASSETS)) {
    const path = resolve(`@fastify/swagger-ui/static/${name}`);
    app.get(`/docs/${name}`, async (_request, reply) => {
      // Read for each visitor: two megabytes that nearly no server ever shows are not worth keeping.
      const body = await readFile(path);
      return reply.header('content-type', type).header('cache-control', 'max-age=3600').send(body);
    });
  }
}

/** Swagger UI styles its elements in place; everything else is this server's own. */
function contentSecurityPolicy(page: string): string {
  const script = /<script>([\s\S]*?)<\/script>/.exec(page)?.[1] ?? '';
  const hash = createHash('sha256').update(script).digest('base64');
  return [
    "default-src 'none'",
    "style-src 'self' 'unsafe-inline'",
    `script-src 'self' 'sha256-${hash}'`,
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
