import type { ServerDuplexStream } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import { createRequestIds } from '../../http/request-ids.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';
import type { Services } from '../../service/services.ts';
import type { WireMessage } from './calls.ts';
import { encodeStreamError } from './infer-answer.ts';
import { type InferCallSettings, inferMessage } from './infer-message.ts';
import { tenantNameOf } from './open-call.ts';
import { toGrpcError } from './status.ts';

/**
 * What one stream may have in hand: requests that are not answered, or whose answer is not on its way. A client that
 * sends more waits, which costs no throughput: these are enough to fill batches, and the rest waits on its side.
 */
const MAX_REQUESTS = 128;
const MAX_BYTES = 64 * 1024 * 1024;

/** A request of a stream, in the place that its answer has among the others. */
interface Slot {
  /** Undefined when it was refused before it could run. */
  call: Call | undefined;
  /** Undefined until it is settled. */
  message: WireMessage | undefined;
  /** Set when the answer is an error. */
  error: unknown;
  /** Of the request, until it is settled; then of the answer. */
  byteLength: number;
}

/**
 * One ModelStreamInfer: any number of requests, answered in their order. An error is an answer like any other, unless the
 * client asked for the first one to end the stream with its status.
 *
 * States: open (requests come), half-closed (the client sends no more: what is in hand is answered, then the stream ends
 * with OK), closed (ended by either side: what is in hand is cancelled, and nothing is written any more).
 */
export class StreamCall {
  readonly #client: ServerDuplexStream<Buffer | Pieces, WireMessage>;
  readonly #services: Services;
  readonly #settings: InferCallSettings;
  readonly #idOf = createRequestIds();
  readonly #ownId: string | undefined;
  readonly #strict: boolean;
  /** Whose key came with the stream. */
  readonly #tenant: string;
  #state: 'open' | 'half-closed' | 'closed' = 'open';
  /** In the order of the requests; the first one is answered next. */
  readonly #slots: Slot[] = [];
  /** Answers given to the stream and not yet gone. */
  #unwritten = 0;
  /** Of all slots and all answers that are not gone. */
  #bytesInHand = 0;
  /** Of answers alone: the part that admission knows of from here. */
  #answerBytes = 0;
  #blocked = false;
  /** Asks for the next message; set while it may not be asked for. */
  #readLater: (() => void) | undefined;
  #requestCount = 0;

  constructor(
    client: ServerDuplexStream<Buffer | Pieces, WireMessage>,
    services: Services,
    settings: InferCallSettings,
  ) {
    this.#client = client;
    this.#services = services;
    this.#settings = settings;
    const [ownId] = client.metadata.get('x-request-id');
    this.#ownId = typeof ownId === 'string' ? ownId : undefined;
    this.#tenant = services.tenants ? tenantNameOf(client.metadata, services.tenants) : '';
    this.#strict = client.metadata.get('triton_grpc_error')[0] === 'true';
  }

  start(): void {
    const client = this.#client;
    // Node reads objects ahead, sixteen of them, however large; this way it asks for one when there is room for it.
    const readNext = client._read.bind(client);
    client._read = (size) => {
      if (this.#hasRoom()) readNext(size);
      else this.#readLater = () => readNext(size);
    };
    client.on('data', (bytes: Buffer | Pieces) => this.#take(bytes));
    client.on('end', () => this.#endInput());
    client.on('drain', () => {
      this.#blocked = false;
      this.#flush();
    });
    client.on('cancelled', () => this.#close(this.#abandoned()));
  }

  #hasRoom(): boolean {
    return this.#slots.length + this.#unwritten < MAX_REQUESTS && this.#bytesInHand < MAX_BYTES;
  }

  #take(bytes: Buffer | Pieces): void {
    if (this.#state !== 'open') return;
    const slot: Slot = { call: undefined, message: undefined, error: undefined, byteLength: bytes.length };
    this.#slots.push(slot);
    this.#bytesInHand += bytes.length;
    inferMessage(
      bytes,
      'stream',
      {
        tenant: this.#tenant,
        open: (priority) => (slot.call = this.#openCall(priority)),
        answer: (message) => this.#settle(slot, message, undefined),
        refuse: (error, id) => this.#refuse(slot, error, id),
      },
      this.#services,
      this.#settings,
    );
  }

  /** The deadline of the stream is not that of its requests: when it comes, the stream ends and they are cancelled. */
  #openCall(priority: number): Call {
    const arrivalMs = this.#services.clock.now();
    const call = new Call(this.#nextId(), arrivalMs, arrivalMs + this.#services.requestTimeoutMs, priority);
    call.tenant = this.#tenant;
    return call;
  }

  #nextId(): string {
    const id = this.#idOf({ headers: this.#ownId === undefined ? {} : { 'x-request-id': this.#ownId } });
    return id === this.#ownId ? `${id}/${++this.#requestCount}` : id;
  }

  #refuse(slot: Slot, error: unknown, id: string): void {
    const requestId = slot.call?.id ?? this.#nextId();
    const known = toGrpcError(error, this.#services.logger, { requestId, method: 'ModelStreamInfer' });
    this.#settle(slot, encodeStreamError(known.message, id), known);
  }

  #settle(slot: Slot, message: WireMessage, error: unknown): void {
    if (this.#state === 'closed') return;
    this.#bytesInHand += message.byteLength - slot.byteLength;
    this.#holdAnswer(message.byteLength);
    slot.byteLength = message.byteLength;
    slot.call = undefined;
    slot.error = error;
    slot.message = message;
    this.#flush();
  }

  /** Writes the answers whose turn has come, as far as the client takes them. */
  #flush(): void {
    while (!this.#blocked && this.#state !== 'closed') {
      const slot = this.#slots[0];
      if (slot?.message === undefined) break;
      if (slot.error !== undefined && this.#strict) {
        this.#endWith(slot.error);
        return;
      }
      this.#slots.shift();
      this.#write(slot.message);
    }
    this.#readOn();
    this.#endIfDone();
  }

  #write(message: WireMessage): void {
    const { byteLength } = message;
    this.#unwritten++;
    this.#blocked = !this.#client.write(message, () => {
      if (this.#state === 'closed') return;
      this.#unwritten--;
      this.#bytesInHand -= byteLength;
      this.#releaseAnswer(byteLength);
      this.#readOn();
      this.#endIfDone();
    });
  }

  #readOn(): void {
    const read = this.#readLater;
    if (read === undefined || !this.#hasRoom()) return;
    this.#readLater = undefined;
    read();
  }

  #endInput(): void {
    if (this.#state !== 'open') return;
    this.#state = 'half-closed';
    this.#endIfDone();
  }

  #endIfDone(): void {
    if (this.#state !== 'half-closed' || this.#slots.length > 0 || this.#unwritten > 0) return;
    this.#state = 'closed';
    this.#client.end();
  }

  /** Ends the stream with an error's own status. */
  #endWith(error: unknown): void {
    this.#close(new InferError('CANCELLED', 'an earlier request of the stream failed, and ended it'));
    this.#client.emit('error', error); // this is how grpc-js takes a stream's status
  }

  /** Nothing is read, run or written any more. */
  #close(reason: InferError): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#readLater = undefined;
    for (const { call } of this.#slots.splice(0)) call?.cancel(reason);
    this.#releaseAnswer(this.#answerBytes);
  }

  #holdAnswer(byteLength: number): void {
    this.#answerBytes += byteLength;
    this.#services.admission.hold(byteLength);
  }

  #releaseAnswer(byteLength: number): void {
    this.#answerBytes -= byteLength;
    this.#services.admission.release(byteLength);
  }

  #abandoned(): InferError {
    return Date.now() >= Number(this.#client.getDeadline())
      ? new InferError('DEADLINE_EXCEEDED', 'the deadline of the stream has passed')
      : new InferError('CANCELLED', 'the client cancelled the stream');
  }
}
