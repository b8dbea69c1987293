import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Services } from '../service/services.ts';

/** Routes that run the model that their path names. */
const RUNS_A_MODEL =
  /^\/(v2\/models\/:model(\/versions\/[^/]+)?\/(infer|jobs|bulk|generate|generate_stream)|models\/:model)/;

/**
 * Has the model of a request loaded before its handler looks it up, where models are loaded on demand. Like the guards of
 * restricted routes it must be set up before the routes; all others pay nothing.
 */
export function wakeModels(app: FastifyInstance, { wake }: Pick<Services, 'wake'>): void {
  app.addHook('onRoute', (route) => {
    if (route.method !== 'POST' || !RUNS_A_MODEL.test(route.url)) return;
    const before = route.preHandler ?? [];
    route.preHandler = [wakeModel, ...(Array.isArray(before) ? before : [before])];
  });

  function wakeModel(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
    const { model } = request.params as { model: string }; // the route's own pattern has it
    const waking = wake(model);
    if (waking) void waking.then(done);
    else done();
  }
}
