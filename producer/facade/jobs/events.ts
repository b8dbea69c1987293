import type { FastifyReply } from 'fastify';
import { isOver } from '../../../shared/jobs/job.ts';
import { EVENT_STREAM } from '../../http/error-reply.ts';
import type { FacadeContext } from '../facade-context.ts';
import { TenantPlaces } from '../tenant-places.ts';
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
  readonly #places: TenantPlaces;

  constructor(context: FacadeContext) {
    this.#context = context;
    this.#places = new TenantPlaces(MAX_STREAMS, context.tenants, (taken, tenant) => {
      const whose = tenant === '' ? '' : ` of ${tenant}`;
      return `${taken} streams of job events${whose} are open, no more are taken; use ?wait= instead`;
    });
  }

  /**
   * Sends the job as it is and each change until it is over. Resolves when the stream has ended.
   * @throws InferError NOT_FOUND before anything is sent, RESOURCE_EXHAUSTED when there are too many streams
   */
  async send(reply: FastifyReply, id: string, tenant: string): Promise<void> {
    const { jobs } = this.#context;
    await jobs.get(id);
    const giveBack = this.#places.take(tenant);
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
      giveBack();
      raw.end();
    }
  }
}
