import type { FastifyReply } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { JobRecord } from '../../../shared/jobs/job.ts';
import { HttpError, toPublicError } from '../../http/http-error.ts';
import type { FacadeContext } from '../facade-context.ts';
import type { LabelledModel } from '../triton/classification.ts';
import { withRequestId } from '../triton/request-id.ts';
import { type EncodedResponse, encodeInferResponse } from '../triton-http/codec.ts';
import { sendInferResponse } from '../triton-http/infer-answer.ts';
import { sendJson } from '../triton-http/send-json.ts';
import { type AnswerForm, decodeAnswerForm } from './codec.ts';
import { JOB_STATE_HEADER } from './job-state-header.ts';

/** What a job has come to: the answer that infer would have given, or its error. */
export type Outcome = { readonly answer: EncodedResponse } | { readonly error: unknown };

/** @throws InferError when the answer of a job that succeeded cannot be read */
export async function readOutcome(
  record: JobRecord,
  { jobs, catalog }: Pick<FacadeContext, 'jobs' | 'catalog'>,
): Promise<Outcome> {
  const form = decodeAnswerForm(record.answer);
  if (record.state === 'cancelled') {
    return { error: new HttpError(410, `the job '${record.id}' was cancelled, it has no result`) };
  }
  if (record.state !== 'succeeded') {
    return { error: withRequestId(record.error ?? new InferError('INTERNAL', 'the job failed'), form.id) };
  }
  const response = await jobs.result(record.id);
  try {
    return { answer: encodeResult(response, form, catalog) };
  } catch (error) {
    return { error: withRequestId(error, form.id) }; // classes of what has none, which infer would say as well
  }
}

/** Answers as infer would have, and says that it is a job's end. */
export function sendOutcome(reply: FastifyReply, { state }: JobRecord, outcome: Outcome, context: FacadeContext): void {
  reply.header(JOB_STATE_HEADER, state);
  if ('answer' in outcome) {
    sendInferResponse(reply, outcome.answer, context);
    return;
  }
  const { status, message } = toPublicError(outcome.error);
  // Past what tells refused clients when to come again: they would find the same end.
  if (status === 429) sendJson(reply.code(status), { error: message });
  else context.sendError(reply, outcome.error);
}

function encodeResult(response: InferResponse, form: AnswerForm, catalog: ModelCatalog): EncodedResponse {
  const { id, wishes, binaryByDefault, bareNan } = form;
  const model = wishes.some(({ classes }) => classes > 0) ? labelledModel(response, form, catalog) : WITHOUT_MODEL;
  return encodeInferResponse(
    response,
    { request: { id }, wishes, binaryByDefault, bareNan, regions: undefined },
    model,
  );
}

/** Labels are the model's; when it has gone, classes are without. */
function labelledModel({ model, version }: InferResponse, form: AnswerForm, catalog: ModelCatalog): LabelledModel {
  try {
    return catalog.resolve(model, version);
  } catch {
    return { outputs: [], maxBatchSize: form.batched ? 1 : 0 };
  }
}

const WITHOUT_MODEL: LabelledModel = { outputs: [], maxBatchSize: 0 };
