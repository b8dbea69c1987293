import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isOver } from '../../../shared/jobs/job.ts';
import { tenantOf } from '../../http/api-keys.ts';
import { HttpError } from '../../http/http-error.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import { unknownJob } from '../../service/jobs/jobs.ts';
import type { FacadeContext } from '../facade-context.ts';
import type { HeadCache } from '../triton-http/head-cache.ts';
import { sendJson } from '../triton-http/send-json.ts';
import { encodeJob } from './codec.ts';
import { EventStreams } from './events.ts';
import { hungUpOf } from './hung-up.ts';
import { type Query, readJobQuery, readWaitMs } from './job-options.ts';
import { readOutcome, sendOutcome } from './outcome.ts';
import { answerWithJob } from './submit.ts';

interface JobRoute {
  Params: { id: string };
  Querystring: Query;
}

/** When to ask again for a job that is not over, in seconds. */
const RETRY_AFTER_SECONDS = '1';

/** Jobs: infer requests that nobody holds a connection for. To be registered where infer is, whose bodies they take. */
export function registerJobRoutes(
  app: FastifyInstance,
  context: FacadeContext,
  settings: HttpSettings,
  heads: HeadCache,
): void {
  const { jobs, tenants } = context;
  // A job of another tenant is as unknown as one that never was.
  const own = tenants ? { preHandler: ownJobOnly } : {};
  const streams = new EventStreams(context);
  // Whoever waits is answered before the server waits for them.
  app.addHook('preClose', (done) => {
    jobs.release();
    done();
  });

  for (const path of ['/v2/models/:model', '/v2/models/:model/versions/:version(^[0-9]+$)']) {
    app.post<{ Params: { model: string; version?: string }; Body: Buffer | undefined }>(
      `${path}/jobs`,
      (request, reply) => answerWithJob(request, request.body, reply, context, settings, heads),
    );
  }
  app.get<{ Querystring: Query }>('/jobs', async (request, reply) => {
    const tenant = tenants ? tenantOf(request) : undefined;
    const { records, cursor } = await jobs.list({ ...readJobQuery(request.query), tenant });
    const list = records.map((record) => encodeJob({ record, position: undefined }));
    return sendJson(reply, { jobs: list, cursor: cursor ?? null });
  });
  app.get<JobRoute>('/jobs/:id', own, async (request, reply) => {
    return sendJson(reply, encodeJob(await waitFor(request, reply)));
  });
  app.get<JobRoute>('/jobs/:id/result', own, async (request, reply) => {
    const view = await waitFor(request, reply);
    reply.header('x-request-id', request.id);
    if (isOver(view.record.state)) {
      sendOutcome(reply, view.record, await readOutcome(view.record, context), context);
      return reply;
    }
    return sendJson(reply.code(202).header('retry-after', RETRY_AFTER_SECONDS), encodeJob(view));
  });
  app.get<JobRoute>('/jobs/:id/events', { ...own, exposeHeadRoute: false }, async (request, reply) => {
    await streams.send(reply, request.params.id, tenantOf(request));
    return reply;
  });
  app.delete<JobRoute>('/jobs/:id', own, async ({ params }, reply) => {
    const { view, cancelled } = await jobs.cancel(params.id);
    if (!cancelled && view.record.state !== 'cancelled') {
      throw new HttpError(409, `the job '${params.id}' is over already: ${view.record.state}`);
    }
    return sendJson(reply, encodeJob(view));
  });

  async function ownJobOnly(request: FastifyRequest): Promise<void> {
    const { id } = request.params as JobRoute['Params']; // of these routes alone
    const { record } = await jobs.get(id);
    if (record.tenant !== tenantOf(request)) throw unknownJob(id);
  }

  function waitFor({ params, query }: FastifyRequest<JobRoute>, reply: FastifyReply) {
    const waitMs = readWaitMs(query);
    return waitMs === 0 ? jobs.get(params.id) : jobs.wait(params.id, waitMs, hungUpOf(reply));
  }
}
