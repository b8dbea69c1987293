import type { FastifyInstance } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { trafficRuleOfJson } from '../../../shared/traffic/traffic-json.ts';
import { assertOwnPage } from '../../http/assert-own-page.ts';
import type { FacadeContext } from '../facade-context.ts';
import { assertKnownModel } from '../triton/known-model.ts';
import { parseJsonDocument } from './json-document.ts';
import { sendJson } from './send-json.ts';

interface TrafficRoute {
  Params: { model: string };
  Body: Buffer | undefined;
}

/**
 * How the requests of a model are spread over its versions: shown, set and cleared, each answered with what holds then.
 * Triton has no such route.
 */
export function registerTrafficRoutes(app: FastifyInstance, { catalog, trafficControl }: FacadeContext): void {
  const path = '/v2/models/:model/traffic';
  app.get<TrafficRoute>(path, ({ params: { model } }, reply) => {
    assertKnownModel(catalog, model);
    return sendJson(reply, trafficControl.show(model));
  });
  app.post<TrafficRoute>(path, async (request, reply) => {
    const { model } = request.params;
    assertOwnPage(request);
    assertKnownModel(catalog, model);
    await trafficControl.set(model, trafficRuleOfJson(readBody(request.body)));
    return sendJson(reply, trafficControl.show(model));
  });
  app.delete<TrafficRoute>(path, async (request, reply) => {
    const { model } = request.params;
    assertOwnPage(request);
    assertKnownModel(catalog, model);
    await trafficControl.clear(model);
    return sendJson(reply, trafficControl.show(model));
  });
}

function readBody(body: Buffer | undefined): Record<string, unknown> {
  if (body && body.length > 0) return parseJsonDocument(body, body.length).root;
  throw new InferError('INVALID_ARGUMENT', 'the body must be a JSON object, like {"shares": {"1": 95, "2": 5}}');
}
