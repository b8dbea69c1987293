import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { tenantOf } from '../../http/api-keys.ts';
import { discardBody } from '../../http/discard-body.ts';
import { HttpError } from '../../http/http-error.ts';
import { takeTime } from '../../http/http-server.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import type { FacadeContext } from '../facade-context.ts';
import { TenantPlaces } from '../tenant-places.ts';
import type { Query } from '../jobs/job-options.ts';
import { readBulkOptions } from './bulk-options.ts';
import { readLines } from './line-reader.ts';
import { BulkRun } from './run-bulk.ts';

interface BulkRoute {
  Params: { model: string; version?: string };
  Querystring: Query;
  Body: Readable | undefined;
}

const NDJSON = 'application/x-ndjson';
const MAX_LINE_BYTES = 16 * 1024 * 1024;
/** Bulk requests at one time in this process. */
const MAX_RUNS = 32;

/** Many inputs in one request, a line each, and a line each in the answer. To be registered in a scope of its own. */
export function registerBulkRoutes(app: FastifyInstance, context: FacadeContext, settings: HttpSettings): void {
  const runs = new Set<BulkRun>();
  const places = new TenantPlaces(MAX_RUNS, context.tenants, (taken, tenant) => {
    return `${taken} bulk requests${tenant === '' ? '' : ` of ${tenant}`} are under way, no more are taken`;
  });
  app.removeAllContentTypeParsers();
  // The body is read line by line while answers are written.
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  app.addHook('preClose', (done) => {
    for (const run of runs) run.stop('the server is shutting down');
    done();
  });
  for (const path of ['/v2/models/:model', '/v2/models/:model/versions/:version(^[0-9]+$)']) {
    app.post<BulkRoute>(`${path}/bulk`, async (request, reply) => {
      await answer(request, reply);
      return reply;
    });
  }

  async function answer(request: FastifyRequest<BulkRoute>, reply: FastifyReply): Promise<void> {
    const { params, query, body } = request;
    const options = readBulkOptions(query);
    const { model, version = '' } = params;
    // What no line could do is told before the first one.
    context.catalog.resolve(model, version);
    assertPlain(request);
    const tenant = tenantOf(request);
    const giveBack = places.take(tenant);
    reply.header('content-type', NDJSON);
    reply.header('x-request-id', request.id);
    reply.header('x-accel-buffering', 'no');
    const { raw } = reply;
    const headers = reply.getHeaders() as Record<string, string>; // those above, and texts of Fastify's
    reply.hijack();
    takeTime(raw);
    raw.writeHead(200, headers);
    raw.flushHeaders();
    const maxLineBytes = Math.min(MAX_LINE_BYTES, settings.maxJsonBytes);
    const { sendTimeoutMs, receiveTimeoutMs } = settings;
    const work = { model, version, tenant, requestId: request.id, options, maxLineBytes, sendTimeoutMs };
    const run = new BulkRun(context, work, raw);
    runs.add(run);
    raw.once('close', () => {
      if (!raw.writableFinished) run.cancel();
    });
    try {
      await run.run(readLines(withIdleLimit(body ?? Readable.from([]), receiveTimeoutMs), maxLineBytes));
      raw.end();
      discardBody(request.raw);
    } catch (error) {
      // The head is sent: the end of the answer without a summary says it.
      context.logger.debug({ requestId: request.id, error: String(error) }, 'bulk request ended early');
      raw.destroy();
    } finally {
      runs.delete(run);
      giveBack();
    }
  }
}

function assertPlain({ headers }: FastifyRequest): void {
  const coding = headers['content-encoding'];
  if (coding === undefined || coding === '' || coding.toLowerCase() === 'identity') return;
  throw new HttpError(415, 'bulk requests are not taken compressed, expected no content-encoding');
}

/** Chunks of a body. Its client may be silent for so long, counted only while more of it is wanted. */
async function* withIdleLimit(body: Readable, idleMs: number): AsyncGenerator<Buffer> {
  // To leave it unread must not end the connection under the answer. No encoding is set, so chunks are buffers.
  const chunks = body.iterator({ destroyOnReturn: false }) as AsyncIterableIterator<Buffer>;
  const giveUp = () => body.destroy(new InferError('CANCELLED', 'the client sent nothing for too long'));
  try {
    for (;;) {
      const timer = setTimeout(giveUp, idleMs);
      const next = await chunks.next().finally(() => clearTimeout(timer));
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    await chunks.return?.();
  }
}
