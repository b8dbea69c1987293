import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { isOver, type JobRecord } from '../../../shared/jobs/job.ts';
import { tenantOf } from '../../http/api-keys.ts';
import { HttpError } from '../../http/http-error.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import { type Idempotency, IdempotencyConflict, type NewJob } from '../../service/jobs/job-store.ts';
import type { JobView } from '../../service/jobs/jobs.ts';
import type { FacadeContext } from '../facade-context.ts';
import { withRequestId } from '../triton/request-id.ts';
import type { HeadCache } from '../triton-http/head-cache.ts';
import { HEADER_LENGTH } from '../triton-http/infer-answer.ts';
import { readInferRequest, type ReadRequest } from '../triton-http/infer-request.ts';
import { sendJson } from '../triton-http/send-json.ts';
import { encodeAnswerForm, encodeJob, jobPath } from './codec.ts';
import { hungUpOf } from './hung-up.ts';
import { preferredWaitMs, type Query, readIdempotencyKey, readJobSettings, readWebhook } from './job-options.ts';
import { type Outcome, readOutcome, sendOutcome } from './outcome.ts';

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
  const jobSettings = readJobSettings(request.query as Query); // what Fastify's parser gives
  const webhook = readWebhook(request.query as Query);
  const waitMs = preferredWaitMs(request.headers.prefer);
  const key = readIdempotencyKey(request.headers);
  const idempotency = key === undefined ? undefined : idempotencyOf(key, request, body);
  const record = await submitDecoded(request, body, context, settings, heads, {
    settings: jobSettings,
    callId: request.id,
    tenant: tenantOf(request),
    webhook,
    idempotency,
  });
  reply.header('location', jobPath(record.id));
  if (request.headers.prefer !== undefined) {
    reply.header('preference-applied', waitMs > 0 ? `respond-async, wait=${waitMs / 1000}` : 'respond-async');
  }
  let view: JobView = { record, position: undefined };
  let outcome: Outcome | undefined;
  try {
    if (waitMs > 0) view = await context.jobs.wait(record.id, waitMs, hungUpOf(reply));
    if (waitMs > 0 && isOver(view.record.state)) outcome = await readOutcome(view.record, context);
  } catch {
    // The job is taken, whatever became of the wait: its client has to know where it is.
  }
  if (outcome) sendOutcome(reply, view.record, outcome, context);
  else sendJson(reply.code(202), encodeJob(view));
}

/** The job of the request; where it is a repetition, also when it could not be taken any more. */
async function submitDecoded(
  request: SubmitRequest,
  body: Buffer | undefined,
  context: FacadeContext,
  settings: HttpSettings,
  heads: HeadCache,
  job: Omit<NewJob, 'request' | 'level' | 'answer'>,
): Promise<JobRecord> {
  const { jobs } = context;
  let read: ReadRequest;
  try {
    read = readInferRequest(request, body, context, settings, heads);
  } catch (error) {
    const known = await jobs.find(job.idempotency);
    if (known) return known;
    throw error;
  }
  const { decoded, model } = read;
  if (decoded.regions) {
    decoded.regions.release();
    throw new InferError('INVALID_ARGUMENT', 'outputs of a job cannot go to shared memory, expected none that do');
  }
  try {
    const answer = encodeAnswerForm(decoded, model);
    const { record } = await jobs.submit({ ...job, request: decoded.request, level: decoded.priority, answer });
    return record;
  } catch (error) {
    if (error instanceof IdempotencyConflict) throw error;
    throw withRequestId(error, decoded.request.id);
  }
}

/** Everything that decides what runs and how it is answered. */
function idempotencyOf(ownKey: string, request: SubmitRequest, body: Buffer = Buffer.alloc(0)): Idempotency {
  const { params, headers } = request;
  const tenant = tenantOf(request);
  // Nobody meets a key of another tenant.
  const key = tenant === '' ? ownKey : JSON.stringify([tenant, ownKey]);
  const head = [params.model, params.version ?? '', String(headers[HEADER_LENGTH] ?? '')];
  const hash = createHash('sha256').update(JSON.stringify(head)).update(body);
  return { key, fingerprint: hash.digest('base64url') };
}
