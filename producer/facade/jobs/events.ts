import type { FastifyReply } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { isOver } from '../../../shared/jobs/job.ts';
import { EVENT_STREAM } from '../../http/error-reply.ts';
import type { FacadeContext } from '../facade-context.ts';
import { encodeJob } from './codec.ts';
import { hungUpOf } from './hung-up.ts';

/** Streams at one time; each looks where its job stands in line once a second. */
const MAX_STREAMS = 256;
/** Proxies cut connections that say nothing for a minute. */
const HEARTBEAT_MS = 15_000;
/** Text that a client may leave unread; then it is cut off. */
const MAX_UNREAD_BYTES = 256 * 1024;

/** Server-sent events of jobs. */
export class EventStreams {
  readonly #context: FacadeContext;
  #count = 0;
  readonly #countOf = new Map<string, number>();

  constructor(context: FacadeContext) {
    this.#context = context;
  }

  /**
   * Sends the job as it is and each change until it is over. Resolves when the stream has ended.
   * @throws InferError NOT_FOUND before anything is sent, RESOURCE_EXHAUSTED when there are too many streams
   */
  async send(reply: FastifyReply, id: string, tenant: string): Promise<void> {
    const { jobs } = this.#context;
    await jobs.get(id);
    this.#assertRoom(tenant);
    this.#change(tenant, 1);
    const { raw } = reply;
    const hungUp = hungUpOf(reply);
    reply.header('content-type', EVENT_STREAM);
    reply.header('cache-control', 'no-store');
    // Asks nginx not to hold events back.
    reply.header('x-accel-buffering', 'no');
    const headers = reply.getHeaders() as Record<string, string>; // those above, and texts of Fastify's
    reply.hijack();
    raw.writeHead(200, headers);
    raw.flushHeaders();
    const write = (text: string): void => {
      if (raw.destroyed) return;
      raw.write(text);
      if (raw.writableLength > MAX_UNREAD_BYTES) raw.destroy();
    };
    const heartbeat = setInterval(() => write(': still here\n\n'), HEARTBEAT_MS);
    try {
      await jobs.follow(
        id,
        (view) => {
          const event = isOver(view.record.state) ? 'done' : view.record.state;
          write(`event: ${event}\ndata: ${JSON.stringify(encodeJob(view))}\n\n`);
        },
        hungUp,
      );
    } catch (error) {
      // The head is sent: the end of the stream without `done` says it, and the client comes again.
      this.#context.logger.debug({ job: id, error: String(error) }, 'job events ended early');
    } finally {
      clearInterval(heartbeat);
      this.#change(tenant, -1);
      raw.end();
    }
  }

  /** Each tenant has its share, so that none takes the places of the others. */
  #assertRoom(tenant: string): void {
    const own = this.#countOf.get(tenant) ?? 0;
    const share = this.#context.tenants?.shareOf(tenant, MAX_STREAMS) ?? MAX_STREAMS;
    if (this.#count < MAX_STREAMS && own < share) return;
    const text = `${own >= share ? own : this.#count} streams of job events are open, no more are taken; use ?wait= instead`;
    throw new InferError('RESOURCE_EXHAUSTED', text);
  }

  #change(tenant: string, by: 1 | -1): void {
    this.#count += by;
    const own = (this.#countOf.get(tenant) ?? 0) + by;
    if (own === 0) this.#countOf.delete(tenant);
    else this.#countOf.set(tenant, own);
  }
}
