import type { FastifyReply } from 'fastify';

/** Sends JSON that is a text already. */
export function sendJsonText(reply: FastifyReply, text: string): FastifyReply {
  return reply.header('content-type', 'application/json').send(text);
}

export function sendJson(reply: FastifyReply, value: object): FastifyReply {
  return sendJsonText(reply, JSON.stringify(value));
}
