import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { isOver } from '../../../shared/jobs/job.ts';
import { tenantOf } from '../../http/api-keys.ts';
import { HttpError } from '../../http/http-error.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import { type Idempotency, IdempotencyConflict } from '../../service/jobs/job-store.ts';
import type { JobView } from '../../service/jobs/jobs.ts';
import type { FacadeContext } from '../facade-context.ts';
import { withRequestId } from '../triton/request-id.ts';
import type { HeadCache } from '../triton-http/head-cache.ts';
import { HEADER_LENGTH } from '../triton-http/infer-answer.ts';
import { readInferRequest } from '../triton-http/infer-request.ts';
import { sendJson } from '../triton-http/send-json.ts';
import { encodeAnswerForm, encodeJob, jobPath } from './codec.ts';
import { hungUpOf } from './hung-up.ts';
import { preferredWaitMs, type Query, readIdempotencyKey, readJobSettings, readWebhook } from './job-options.ts';
import { sendOutcome } from './outcome.ts';

/** Its body comes apart from it, as its handlers know the type. */
export type SubmitRequest = Pick<
  FastifyRequest<{ Params: { model: string; version?: string } }>,
  'id' | 'params' | 'query' | 'headers' | 'tenant'
>;

/**
 * Takes an infer request as a job: 202 with its state and where to find it, or its answer where the client waits and it
 * is there in time.
 */
export function answerWithJob(
  request: SubmitRequest,
  body: Buffer | undefined,
  reply: FastifyReply,
  context: FacadeContext,
  settings: HttpSettings,
  heads: HeadCache,
): void {
  reply.header('x-request-id', request.id);
  submit(request, body, reply, context, settings, heads).catch((error: unknown) => {
    context.sendError(reply, error instanceof IdempotencyConflict ? new HttpError(422, error.message) : error);
  });
}

async function submit(
  request: SubmitRequest,
  body: Buffer | undefined,
  reply: FastifyReply,
  context: FacadeContext,
  settings: HttpSettings,
  heads: HeadCache,
): Promise<void> {
  const { jobs } = context;
  const jobSettings = readJobSettings(request.query as Query); // what Fastify's parser gives
  const webhook = readWebhook(request.query as Query);
  const waitMs = preferredWaitMs(request.headers.prefer);
  const key = readIdempotencyKey(request.headers);
  const { decoded, bytes } = readInferRequest(request, body, context, settings, heads);
  if (decoded.regions) {
    decoded.regions.release();
    throw new InferError('INVALID_ARGUMENT', 'outputs of a job cannot go to shared memory, expected none that do');
  }
  let view: JobView;
  try {
    const { record } = await jobs.submit({
      request: decoded.request,
      settings: jobSettings,
      callId: request.id,
      level: decoded.priority,
      answer: encodeAnswerForm(decoded),
      tenant: tenantOf(request),
      webhook,
      idempotency: key === undefined ? undefined : idempotencyOf(key, request, bytes),
    });
    view = { record, position: undefined };
    if (waitMs > 0) view = await jobs.wait(record.id, waitMs, hungUpOf(reply));
  } catch (error) {
    if (error instanceof IdempotencyConflict) throw error;
    throw withRequestId(error, decoded.request.id);
  }
  const path = jobPath(view.record.id);
  reply.header('location', path);
  if (request.headers.prefer !== undefined) {
    reply.header('preference-applied', waitMs > 0 ? `respond-async, wait=${waitMs / 1000}` : 'respond-async');
  }
  if (waitMs > 0 && isOver(view.record.state)) await sendOutcome(reply, view, context);
  else sendJson(reply.code(202), encodeJob(view));
}

/** Everything that decides what runs and how it is answered. */
function idempotencyOf(ownKey: string, request: SubmitRequest, body: Buffer): Idempotency {
  const { params, headers } = request;
  const tenant = tenantOf(request);
  // Nobody meets a key of another tenant.
  const key = tenant === '' ? ownKey : JSON.stringify([tenant, ownKey]);
  const head = [params.model, params.version ?? '', String(headers[HEADER_LENGTH] ?? '')];
  const hash = createHash('sha256').update(JSON.stringify(head)).update(body);
  return { key, fingerprint: hash.digest('base64url') };
}
