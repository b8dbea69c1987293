import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Call } from '../../shared/infer/call.ts';
import type { AnswerBody } from '../http/send-body.ts';
import type { Services } from '../service/services.ts';

/** What every HTTP facade gets: the services, and a way to open a call that ends with its HTTP client. */
export interface FacadeContext extends Services {
  /**
   * Opens a call for the request behind `reply`: an id (also in the `x-request-id` header), a deadline, and
   * cancellation when the client hangs up.
   */
  openCall(reply: FastifyReply, options?: CallOptions): Call;
  /** Answers with an error in the form of Triton, `{"error": text}`; foreign errors are logged and shown as 500. */
  sendError(reply: FastifyReply, error: unknown): void;
  /**
   * Sends the answer of a call with the reply's status and headers, past Fastify's onSend hooks, and ends the connection
   * of a client that stops reading it.
   */
  sendBody(reply: FastifyReply, body: AnswerBody): void;
}

export interface CallOptions {
  /** Triton's priority, 0 = default, 1 = most urgent. */
  readonly priority?: number;
}

/** Adds a protocol's routes. Bodies arrive as Buffer (undefined when there is none), whatever their content type. */
export type Facade = (app: FastifyInstance, context: FacadeContext) => void | Promise<void>;
