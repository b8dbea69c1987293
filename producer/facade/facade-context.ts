import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Call } from '../../shared/infer/call.ts';
import type { InferFn, ModelCatalog } from '../../shared/infer/ports.ts';
import type { Logger } from '../../shared/runtime/logger.ts';

/** What every facade gets: the models, the one call, and a way to open a call that ends with its HTTP client. */
export interface FacadeContext {
  readonly catalog: ModelCatalog;
  /** The service: validates against the model's metadata, admits, measures, dispatches. */
  readonly infer: InferFn;
  /** Whether requests can be carried now; the reason when not. */
  ready(): { ok: true } | { ok: false; reason: string };
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
  sendBody(reply: FastifyReply, body: Buffer): void;
  /** Millrace's own version, for server metadata. */
  readonly version: string;
  readonly logger: Logger;
}

export interface CallOptions {
  /** Wanted by the client, in ms; the server's own limit still holds. */
  readonly timeoutMs?: number | undefined;
  /** Triton's priority, 0 = default, 1 = most urgent. */
  readonly priority?: number;
}

/** Adds a protocol's routes. Bodies arrive as Buffer (undefined when there is none), whatever their content type. */
export type Facade = (app: FastifyInstance, context: FacadeContext) => void | Promise<void>;
