import type { FastifyInstance } from 'fastify';
import type { FacadeContext } from '../facade-context.ts';
import { modelStatisticsWithBatching } from '../triton/statistics.ts';
import { sendJson } from './send-json.ts';

interface StatisticsRoute {
  Params: { model?: string; version?: string };
}

/** What the requests of each model version have come to. A model named `stats` is hidden by the path of all, as in Triton. */
export function registerStatisticsRoutes(app: FastifyInstance, context: FacadeContext): void {
  for (const path of [
    '/v2/models/stats',
    '/v2/models/:model/stats',
    '/v2/models/:model/versions/:version(^[0-9]+$)/stats',
  ]) {
    app.get<StatisticsRoute>(path, ({ params: { model = '', version = '' } }, reply) =>
      sendJson(reply, modelStatisticsWithBatching(context, model, version)),
    );
  }
}
