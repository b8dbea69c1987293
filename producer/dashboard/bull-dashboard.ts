import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Queue } from 'bullmq';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { AccessPolicy } from './dashboard-access.ts';
import { decideAccess } from './dashboard-access.ts';
import { summarizeJobData } from './job-summary.ts';

export interface DashboardOptions extends AccessPolicy {
  /** The queues of all models at this moment; asked for again before each page, so they may come and go. */
  readonly queues: () => readonly Queue[];
  /** Without a slash at the end; '/dashboard' unless said otherwise. */
  readonly basePath?: string;
  readonly logger: Logger;
}

/**
 * Bull dashboard over the queues of the models, in a scope of its own: hooks, parsers and error texts here touch no
 * other route. The queues stay the caller's, who closes them after the server.
 */
export function registerBullDashboard(app: FastifyInstance, options: DashboardOptions): void {
  const basePath = options.basePath ?? '/dashboard';
  const adapter = new FastifyAdapter().setBasePath(basePath);
  const board = createBullBoard({ queues: [], serverAdapter: adapter, options: { uiConfig: uiConfig() } });
  adapter.setErrorHandler((error) => boardError(error, options.logger));
  const followQueues = createFollower(board.replaceQueues, options);

  void app.register(
    (scope, _options, done) => {
      scope.addHook('onRequest', (request, reply, next) => {
        if (refuseUnlessAllowed(request, reply, options, basePath)) return;
        followQueues();
        next();
      });
      scope.addHook('onSend', (_request, reply, payload, next) => next(null, closePage(reply, payload)));
      scope.addHook('onRoute', (route) => {
        route.handlerTimeout = HANDLER_TIMEOUT_MS;
      });
      // The board reads JSON, while the facades around take any body as bytes.
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser(
        'application/json',
        { parseAs: 'string', bodyLimit: BODY_LIMIT_BYTES },
        scope.getDefaultJsonParser('error', 'error'),
      );
      scope.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'no such page' }));
      void scope.register(adapter.registerPlugin());
      done();
    },
    { prefix: basePath },
  );
}

/** Redis may be away and its client patient: the board's routes end in any case. */
const HANDLER_TIMEOUT_MS = 5_000;
const BODY_LIMIT_BYTES = 64 * 1024;

function uiConfig(): NonNullable<NonNullable<Parameters<typeof createBullBoard>[0]['options']>['uiConfig']> {
  return {
    boardTitle: 'Millrace queues',
    hideDocsLink: true,
    miscLinks: [{ text: 'Models', url: '/' }],
  };
}

/** Replaces the board's queues when the caller's have changed since the last look. */
function createFollower(
  replaceQueues: ReturnType<typeof createBullBoard>['replaceQueues'],
  { queues, token }: DashboardOptions,
): () => void {
  let adapters = new Map<Queue, BullMQAdapter>();
  return () => {
    const now = queues();
    if (now.length === adapters.size && now.every((queue) => adapters.has(queue))) return;
    adapters = new Map(now.map((queue) => [queue, adapters.get(queue) ?? createAdapter(queue, !token)]));
    replaceQueues([...adapters.values()]);
  };
}

function createAdapter(queue: Queue, readOnlyMode: boolean): BullMQAdapter {
  const adapter = new BullMQAdapter(queue, { readOnlyMode });
  adapter.setFormatter('data', summarizeJobData);
  adapter.setFormatter('returnValue', summarizeJobData);
  adapter.setFormatter('progress', (progress) =>
    typeof progress === 'number' ? progress : summarizeJobData(progress),
  );
  return adapter;
}

/** Answers the request itself and returns true when it may not go on. */
function refuseUnlessAllowed(
  request: FastifyRequest,
  reply: FastifyReply,
  policy: AccessPolicy,
  basePath: string,
): boolean {
  const { headers } = request;
  const fetchSite = headers['sec-fetch-site'];
  const decision = decideAccess(policy, {
    method: request.method,
    rawUrl: request.raw.url ?? '',
    host: headers.host,
    authorization: headers.authorization,
    origin: headers.origin,
    fetchSite: typeof fetchSite === 'string' ? fetchSite : undefined,
  });
  if (!decision.allowed) {
    if (decision.status === 401) void reply.header('www-authenticate', 'Basic realm="Millrace", charset="UTF-8"');
    void reply.code(decision.status).send({ error: decision.message });
    return true;
  }
  if (makesJobs(request.routeOptions.url, basePath)) {
    void reply.code(403).send({ error: 'jobs are written by producers only: what is shown here is not their data' });
    return true;
  }
  return false;
}

/** The board would send back what it was shown, and that is a summary. */
function makesJobs(route: string | undefined, basePath: string): boolean {
  if (!route?.startsWith(`${basePath}/api/`)) return false;
  return route.endsWith('/add') || route.endsWith('/update-data') || route.endsWith('/job-schedulers/:schedulerId/run');
}

/** Keeps the board's page inside this server: it may call and load nothing from elsewhere. */
function closePage(reply: FastifyReply, payload: unknown): unknown {
  void reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
  if (!reply.hasHeader('cache-control')) void reply.header('cache-control', 'no-store');
  if (typeof payload !== 'string' || !String(reply.getHeader('content-type')).startsWith('text/html')) return payload;
  void reply.header('content-security-policy', BOARD_POLICY);
  // The board asks a font service for its typeface; the browser's own does as well.
  return payload.replace(/<link href="https?:\/\/[^>]*>/g, '');
}

const BOARD_POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

function boardError(error: Error & { statusCode?: number }, logger: Logger) {
  const status = error.statusCode ?? 500;
  if (status >= 500) logger.warn({ err: error }, 'dashboard request failed');
  const message = status >= 500 ? 'the queue could not be read' : error.message;
  return { status: status as 500, body: { error: { key: 'ERRORS.INTERNAL_SERVER_ERROR' }, message } };
}
