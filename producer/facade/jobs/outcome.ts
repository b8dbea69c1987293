import type { FastifyReply } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { HttpError } from '../../http/http-error.ts';
import type { JobView } from '../../service/jobs/jobs.ts';
import type { FacadeContext } from '../facade-context.ts';
import type { LabelledModel } from '../triton/classification.ts';
import { withRequestId } from '../triton/request-id.ts';
import { encodeInferResponse } from '../triton-http/codec.ts';
import { sendInferResponse } from '../triton-http/infer-answer.ts';
import { type AnswerForm, decodeAnswerForm } from './codec.ts';

/** Answers as infer would have: with the outputs of a job that succeeded, or with why it did not. */
export async function sendOutcome(reply: FastifyReply, { record }: JobView, context: FacadeContext): Promise<void> {
  const form = decodeAnswerForm(record.answer);
  if (record.state === 'cancelled') throw new HttpError(410, `the job '${record.id}' was cancelled, it has no result`);
  if (record.state !== 'succeeded') {
    throw withRequestId(record.error ?? new InferError('INTERNAL', 'the job failed'), form.id);
  }
  const response = await context.jobs.result(record.id);
  sendInferResponse(reply, encodeResult(response, form, context), context);
}

function encodeResult(response: InferResponse, form: AnswerForm, { catalog }: Pick<FacadeContext, 'catalog'>) {
  const { id, wishes, binaryByDefault, bareNan } = form;
  const { model: name, version } = response;
  // Labels are the model's; nothing else of it is needed, so it may be gone.
  const needsModel = wishes.some(({ classes }) => classes > 0);
  const model = needsModel ? catalog.resolve(name, version) : WITHOUT_MODEL;
  return encodeInferResponse(
    response,
    { request: { id }, wishes, binaryByDefault, bareNan, regions: undefined },
    model,
  );
}

const WITHOUT_MODEL: LabelledModel = { outputs: [], maxBatchSize: 0 };
