import { type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js';
import type { Call } from '../../../shared/infer/call.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';
import type { Services } from '../../service/services.ts';
import type { InferCalls, WireMessage } from './calls.ts';
import type { InferAnswer } from './infer-answer.ts';
import { type InferCallSettings, inferMessage, type InferWaiter } from './infer-message.ts';
import { type ClientCall, createCallOpener, type OpenCall, tenantNameOf } from './open-call.ts';
import { toGrpcError } from './status.ts';
import { StreamCall } from './stream-call.ts';

/** The two methods that run models. They read and write their messages by themselves, past the general codec. */
export function createInferCalls(services: Services, settings: InferCallSettings): InferCalls {
  const openCall = createCallOpener(services);
  return {
    modelInfer: {
      handle: (client, done) =>
        inferMessage(client.request, 'unary', new UnaryInfer(client, done, openCall, services), services, settings),
      serialize: (answer) => answer,
    },
    modelStreamInfer: {
      handle: (client) => new StreamCall(client, services, settings).start(),
      serialize: (answer) => answer,
    },
  };
}

/** A client that waits for the answer to its only message. */
class UnaryInfer implements InferWaiter {
  readonly #client: ServerUnaryCall<Buffer | Pieces, WireMessage>;
  readonly #done: sendUnaryData<WireMessage>;
  readonly #openCall: OpenCall;
  readonly #services: Services;
  #call: Call | undefined;
  #settled = false;

  constructor(
    client: ServerUnaryCall<Buffer | Pieces, WireMessage>,
    done: sendUnaryData<WireMessage>,
    openCall: OpenCall,
    services: Services,
  ) {
    this.#client = client;
    this.#done = done;
    this.#openCall = openCall;
    this.#services = services;
  }

  get tenant(): string {
    const { tenants } = this.#services;
    return tenants ? tenantNameOf(this.#client.metadata, tenants) : '';
  }

  open(priority: number): Call {
    const client = this.#client;
    const waiting: ClientCall = {
      cancelled: client.cancelled,
      metadata: client.metadata,
      getDeadline: () => client.getDeadline(),
      // grpc-js says so at the end of every call, and making an error of each costs a tenth of a millisecond.
      once: (event, listener) =>
        client.once(event, () => {
          if (!this.#settled) listener();
        }),
    };
    return (this.#call = this.#openCall(waiting, priority));
  }

  answer(answer: InferAnswer): void {
    this.#settled = true;
    this.#done(null, answer);
  }

  refuse(error: unknown): void {
    const { id } = this.#call ?? this.open(0);
    this.#settled = true;
    const known = toGrpcError(error, this.#services.logger, { requestId: id, method: 'ModelInfer' });
    known.metadata?.set('x-request-id', id);
    this.#done(known);
  }
}
