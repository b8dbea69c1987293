import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ApiCategory, Restrictions } from '../service/restricted-access.ts';
import { HttpError } from './http-error.ts';

/**
 * Keeps the routes of restricted categories for those who send the right header; everybody else gets 403 before their
 * body is read. Guards are put on as routes are added, so this must be set up before them, and open routes pay nothing.
 */
export function restrictRoutes(app: FastifyInstance, restrictions: Restrictions): void {
  app.addHook('onRoute', (route) => {
    const category = categoryOf(route.url, route.method);
    if (category === undefined) return;
    const key = restrictions.keyOf(category);
    if (key === undefined) return;
    const guard = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void): void => {
      if (restrictions.allows(category, (name) => headerOf(request, name))) done();
      else done(new HttpError(403, `This API is restricted: ${category} needs the header ${key} with its value`));
    };
    const others = route.onRequest ?? [];
    // First in line: whoever may not come in causes no other work.
    route.onRequest = [guard, ...(Array.isArray(others) ? others : [others])];
  });
}

function headerOf({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** The last segment of a path below a model. */
const MODEL_CALLS: Readonly<Record<string, ApiCategory>> = {
  ready: 'health',
  config: 'model-config',
  infer: 'inference',
  jobs: 'inference',
  bulk: 'inference',
  generate: 'inference',
  generate_stream: 'inference',
  stats: 'statistics',
  traffic: 'model-repository',
};

/**
 * The category of a route. What the other API families do counts as what it is: running a model is inference, telling of
 * models is metadata, and so are the pages that show them. Undefined for what has an access rule of its own.
 * @param url as the route was declared, with `:name` for parameters
 */
export function categoryOf(url: string, method: string | readonly string[]): ApiCategory | undefined {
  const [, family = '', group = '', ...rest] = url.split('/');
  if (family === 'v2') return categoryOfV2(group, rest);
  if (family === 'models') return isRead(method) ? 'metadata' : 'inference';
  if (family === 'jobs') return 'inference';
  if (family === 'pool') return 'pool';
  if (family === 'v1') return group === 'models' ? 'metadata' : 'inference';
  return family === 'dashboard' ? undefined : 'metadata';
}

function categoryOfV2(group: string, rest: readonly string[]): ApiCategory {
  switch (group) {
    case 'health':
      return 'health';
    case 'repository':
      return 'model-repository';
    case 'trace':
      return 'trace';
    case 'logging':
      return 'logging';
    case 'systemsharedmemory':
    case 'cudasharedmemory':
      return 'shared-memory';
    default:
      if (rest.at(-2) === 'trace') return 'trace';
      return MODEL_CALLS[rest.at(-1) ?? ''] ?? 'metadata';
  }
}

function isRead(method: string | readonly string[]): boolean {
  return typeof method === 'string' ? method === 'GET' || method === 'HEAD' : method.every(isRead);
}
