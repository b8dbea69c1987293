import type { FastifyInstance, FastifyRequest } from 'fastify';
import { InferError } from '../../shared/errors.ts';
import type { Tenants } from '../service/tenants/tenants.ts';
import { HttpError } from './http-error.ts';
import { categoryOf } from './restricted-api.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** See `tenantOf`. */
    tenant?: string;
  }
}

/** Whose key came with a request; '' where requests need none. */
export function tenantOf({ tenant }: Pick<FastifyRequest, 'tenant'>): string {
  return tenant ?? '';
}

/**
 * Keeps all routes for those who send a key of a tenant, but for health and the pages, which hold nothing of anybody's;
 * everybody else gets 401 before their body is read. A route about one model is closed to tenants that may not use it.
 * Guards are put on as routes are added, so this must be set up before them.
 */
export function requireKeys(app: FastifyInstance, tenants: Tenants): void {
  app.decorateRequest('tenant', '');
  app.addHook('onRoute', (route) => {
    const category = categoryOf(route.url, route.method);
    if (category === undefined || category === 'health' || isPage(route.url)) return;
    const guard = (request: FastifyRequest, _reply: unknown, done: (error?: Error) => void): void => {
      try {
        admit(request, tenants);
        done();
      } catch (error) {
        done(toChallenge(InferError.from(error)));
      }
    };
    const others = route.onRequest ?? [];
    route.onRequest = [guard, ...(Array.isArray(others) ? others : [others])];
  });
}

function admit(request: FastifyRequest, tenants: Tenants): void {
  const name = tenants.identify((header) => headerOf(request, header));
  request.tenant = name;
  const { model } = request.params as { readonly model?: string }; // routes about one model name it so
  if (model !== undefined) tenants.assertMayUse(name, model);
}

function isPage(url: string): boolean {
  return url === '/' || url === '/docs' || url.startsWith('/docs/');
}

function headerOf({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** 401 has to say how one can get in. */
function toChallenge(error: InferError): Error {
  if (error.code !== 'UNAUTHENTICATED') return error;
  return new HttpError(401, error.message, { 'www-authenticate': 'Bearer realm="millrace"' });
}
