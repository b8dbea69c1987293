import type { FastifyInstance, FastifyRequest } from 'fastify';
import { assertOwnPage } from '../../http/assert-own-page.ts';
import { HttpError } from '../../http/http-error.ts';
import type { Pool } from '../../pool/pool-view.ts';
import { sendJson } from '../triton-http/send-json.ts';

export interface PoolRoutesOptions {
  readonly pool: Pool;
  /** Why nobody may see or change the pool; undefined where those may who pass the restrictions of the API. */
  readonly closed: string | undefined;
}

interface WorkerRoute {
  Params: { name: string };
}

/** The workers, and how many there should be. Triton has no such routes. */
export function registerPoolRoutes(app: FastifyInstance, { pool, closed }: PoolRoutesOptions): void {
  const assertOpen = (): void => {
    if (closed !== undefined) throw new HttpError(403, closed);
  };
  app.get('/pool', (_request, reply) => {
    assertOpen();
    return sendJson(reply, pool.view());
  });
  app.post('/pool/workers/:name/drain', async (request: FastifyRequest<WorkerRoute>, reply) => {
    assertOpen();
    assertOwnPage(request);
    const { id, name } = await pool.drain(request.params.name);
    return sendJson(reply, { id, name, state: 'draining' });
  });
}
