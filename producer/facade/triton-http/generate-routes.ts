import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { EVENT_STREAM, sendErrorEvent, toEvent } from '../../http/error-reply.ts';
import type { FacadeContext } from '../facade-context.ts';
import { withRequestId } from '../triton/request-id.ts';
import { decodeGenerateRequest, encodeGenerateResponse } from './generate-codec.ts';

interface GenerateRoute {
  Params: { model: string; version?: string };
  Body: Buffer | undefined;
}

/** How an answer is written. */
interface Form {
  readonly contentType: string;
  readonly encode: (json: string) => string;
  readonly sendError: (reply: FastifyReply, error: unknown, context: FacadeContext) => void;
}

const PLAIN: Form = {
  contentType: 'application/json',
  encode: (json) => json,
  sendError: (reply, error, context) => context.sendError(reply, error),
};

/** The one answer of a model is the one event; a request that is refused before it runs gets a plain error. */
const EVENTS: Form = {
  contentType: EVENT_STREAM,
  encode: toEvent,
  sendError: (reply, error, { logger }) => sendErrorEvent(reply, error, logger),
};

/** The generate extension: flat JSON in, flat JSON or server-sent events out. */
export function registerGenerateRoutes(app: FastifyInstance, context: FacadeContext): void {
  for (const path of ['/v2/models/:model', '/v2/models/:model/versions/:version(^[0-9]+$)']) {
    app.post<GenerateRoute>(`${path}/generate`, (request, reply) => generate(request, reply, PLAIN, context));
    app.post<GenerateRoute>(`${path}/generate_stream`, (request, reply) => generate(request, reply, EVENTS, context));
  }
}

function generate(
  request: FastifyRequest<GenerateRoute>,
  reply: FastifyReply,
  form: Form,
  context: FacadeContext,
): void {
  assertPlainEncoding(request.headers['content-encoding']);
  const { model: name, version = '' } = request.params;
  const model = context.catalog.resolve(name, version);
  const body = request.body ?? Buffer.alloc(0);
  const decoded = decodeGenerateRequest(body, model, version);
  const { id } = decoded.request;
  const call = context.openCall(reply, decoded);
  context
    .infer(decoded.request, call)
    .then((response) => {
      const text = form.encode(encodeGenerateResponse(response, id, decoded.bareNan));
      reply.header('content-type', form.contentType);
      context.sendBody(reply, Buffer.from(text));
    })
    .catch((error: unknown) => form.sendError(reply, withRequestId(error, id), context));
}

/** Compression belongs to infer alone. */
function assertPlainEncoding(encoding: string | undefined): void {
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return;
  throw new InferError(
    'INVALID_ARGUMENT',
    `content-encoding ${shownText(encoding)} is not supported here, send the body uncompressed`,
  );
}
