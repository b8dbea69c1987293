import type { FastifyReply } from 'fastify';
import { compressBody } from '../../http/compress-body.ts';
import { type ContentCoding, pickCoding } from '../../http/content-coding.ts';
import { type AnswerBody, joinedBody } from '../../http/send-body.ts';
import type { FacadeContext } from '../facade-context.ts';
import type { EncodedResponse } from './codec.ts';

export const HEADER_LENGTH = 'inference-header-content-length';

/** Sends the answer of an infer request, compressed where the client wishes that. */
export function sendInferResponse(
  reply: FastifyReply,
  { body, jsonLength }: EncodedResponse,
  context: FacadeContext,
): void {
  if (jsonLength === undefined) {
    reply.header('content-type', 'application/json');
  } else {
    reply.header('content-type', 'application/octet-stream');
    reply.header(HEADER_LENGTH, jsonLength);
  }
  const wish = reply.request.headers['accept-encoding'];
  const coding = wish === undefined ? undefined : pickCoding(wish);
  if (coding === undefined) context.sendBody(reply, body);
  else sendCompressed(reply, body, coding, context);
}

function sendCompressed(reply: FastifyReply, body: AnswerBody, coding: ContentCoding, context: FacadeContext): void {
  compressBody(joinedBody(body), coding, context.admission, (error, packed) => {
    if (error) {
      reply.removeHeader(HEADER_LENGTH);
      context.sendError(reply, error);
      return;
    }
    reply.header('content-encoding', coding);
    context.sendBody(reply, packed);
  });
}
