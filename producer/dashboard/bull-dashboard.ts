import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { Queue } from 'bullmq';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Redis } from 'ioredis';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { AccessPolicy } from './dashboard-access.ts';
import { decideAccess } from './dashboard-access.ts';
import { summarizeJobData } from './job-summary.ts';
import { whyNotRetry, whyNotRetryAll } from './retry-check.ts';

export interface DashboardOptions extends AccessPolicy {
  /** The queues of all models at this moment; asked for again before each page, so they may come and go. */
  readonly queues: () => readonly Queue[];
  /** Where it is looked whether a job can run again; without it every one may be tried. */
  readonly redis?: Redis;
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
      const readers = new WeakSet<FastifyRequest>();
      scope.addHook('onRequest', async (request, reply) => {
        const decision = admit(request, reply, options, basePath);
        if (!decision) return reply;
        if (!decision.mayWrite) readers.add(request);
        followQueues();
        const why = options.redis && (await whyNotNow(request, options.queues(), options.redis));
        if (why !== undefined) return reply.code(409).send(problem('ERRORS.BAD_REQUEST', why));
        return undefined;
      });
      scope.addHook('onSend', (request, reply, payload, next) => {
        next(null, readers.has(request) ? withoutButtons(reply, payload) : closePage(reply, payload));
      });
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

/** Undefined when the request may not go on, which is answered then. */
function admit(
  request: FastifyRequest,
  reply: FastifyReply,
  policy: AccessPolicy,
  basePath: string,
): { readonly mayWrite: boolean } | undefined {
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
    return undefined;
  }
  if (makesJobs(request.routeOptions.url, basePath)) {
    void reply.code(403).send({ error: 'jobs are written by producers only: what is shown here is not their data' });
    return undefined;
  }
  return decision;
}

/** Why a job cannot run again, for requests that want that. */
async function whyNotNow({ routeOptions, params }: FastifyRequest, queues: readonly Queue[], redis: Redis) {
  const route = routeOptions.url ?? '';
  const isOne = route.endsWith('/:queueName/:jobId/retry');
  if (!isOne && !route.endsWith('/:queueName/retry/:queueStatus')) return undefined;
  const { queueName, jobId = '', queueStatus = '' } = params as Partial<Record<string, string>>; // texts of the path
  const queue = queues.find(({ name }) => name === queueName);
  return queue && (isOne ? whyNotRetry(queue, redis, jobId) : whyNotRetryAll(queue, redis, queueStatus));
}

/** For whoever may only read, every queue is one that is only shown. */
function withoutButtons(reply: FastifyReply, payload: unknown): unknown {
  const closed = closePage(reply, payload);
  return typeof closed === 'string' ? closed.replaceAll('"readOnlyMode":false', '"readOnlyMode":true') : closed;
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
  return { status: status as 500, body: problem('ERRORS.INTERNAL_SERVER_ERROR', message) };
}

/** As the board's page reads it. */
function problem(key: string, message: string) {
  return { error: { key }, message };
}
