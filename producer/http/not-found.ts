import type { FastifyInstance } from 'fastify';
import { discardBody } from './discard-body.ts';

/**
 * Answers paths that no route has with 404, and known paths with the wrong verb with 405 and the right ones. Routes are
 * collected as they are added, so this must be set up before them.
 */
export function registerNotFound(app: FastifyInstance): void {
  const known = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    let entry = known.get(url);
    if (!entry) known.set(url, (entry = { pattern: toPattern(url), methods: new Set() }));
    for (const name of typeof method === 'string' ? [method] : method) entry.methods.add(name);
  });
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    const methods = new Set<string>();
    for (const entry of known.values()) {
      if (entry.pattern.test(path)) for (const method of entry.methods) methods.add(method);
    }
    reply.header('x-request-id', request.id);
    discardBody(request.raw);
    if (methods.size === 0) return reply.code(404).send({ error: 'Not Found' });
    return reply
      .code(405)
      .header('allow', [...methods].join(', '))
      .send({ error: 'Method Not Allowed' });
  });
}

/** A route's url as a regular expression: `:name` is one segment, `:name(^re$)` one that looks so, `*` anything. */
function toPattern(url: string): RegExp {
  const segments = url.split('/').map((segment) => {
    if (segment === '*') return '.*';
    const parameter = /^:\w+(?:\(\^?(.*?)\$?\))?$/.exec(segment);
    return parameter ? `(?:${parameter[1] ?? '[^/]+'})` : segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${segments.join('/')}$`);
}
