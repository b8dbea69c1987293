import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { encodeModelConfigJson } from '../../../shared/model/config-json.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { joinedOf, type Pieces } from '../../../shared/tensor/pieces.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import type { FacadeContext } from '../facade-context.ts';
import { freeRequest } from '../triton/free-request.ts';
import { stateOf } from '../triton/known-model.ts';
import { modelMetadataWithDevices, serverMetadata } from '../triton/metadata.ts';
import { withRequestId } from '../triton/request-id.ts';
import { wantsJob } from '../jobs/job-options.ts';
import { registerJobRoutes } from '../jobs/routes.ts';
import { answerWithJob } from '../jobs/submit.ts';
import { type DecodedRequest, encodeInferResponse } from './codec.ts';
import { registerGenerateRoutes } from './generate-routes.ts';
import { HeadCache } from './head-cache.ts';
import { HEADER_LENGTH, sendInferResponse } from './infer-answer.ts';
import { readInferRequest } from './infer-request.ts';
import { registerRepositoryRoutes } from './repository-routes.ts';
import { sendJson, sendJsonText } from './send-json.ts';
import { registerSettingsRoutes } from './settings-routes.ts';
import { registerSharedMemoryRoutes } from './shared-memory-routes.ts';
import { registerStatisticsRoutes } from './statistics-routes.ts';
import { registerTrafficRoutes } from './traffic-routes.ts';

interface ModelRoute {
  // `version` is '' without the /versions part, so that both forms share their handlers.
  Params: { model: string; version?: string };
}

type ModelRequest = FastifyRequest<ModelRoute>;

/** The KServe v2 protocol over HTTP, as Triton speaks it. Every route, in one list. */
export function registerTritonHttpRoutes(app: FastifyInstance, context: FacadeContext, settings: HttpSettings): void {
  const { catalog } = context;
  const heads = new HeadCache();
  const modelOf = ({ params }: ModelRequest) => catalog.resolve(params.model, params.version ?? '');

  app.get('/v2', (_request, reply) => sendJson(reply, serverMetadata(context)));
  app.get('/v2/health/live', (_request, reply) => reply.send());
  app.get('/v2/health/ready', (_request, reply) => reply.code(context.serverReady() ? 200 : 400).send());

  registerRepositoryRoutes(app, context);
  registerSettingsRoutes(app, context);
  registerStatisticsRoutes(app, context);
  registerTrafficRoutes(app, context);
  registerGenerateRoutes(app, context);
  registerSharedMemoryRoutes(app, context);
  registerJobRoutes(app, context, settings, heads);

  // Versions are digits; anything else falls through to 404.
  for (const path of ['/v2/models/:model', '/v2/models/:model/versions/:version(^[0-9]+$)']) {
    app.get<ModelRoute>(path, (request, reply) =>
      sendJson(reply, modelMetadataWithDevices(modelOf(request), request.params.version)),
    );
    app.get<ModelRoute>(`${path}/ready`, (request, reply) => {
      assertReady(catalog, modelOf(request));
      return reply.send();
    });
    app.get<ModelRoute>(`${path}/config`, (request, reply) =>
      sendJsonText(reply, encodeModelConfigJson(modelOf(request).config)),
    );
    app.post<ModelRoute & { Body: Buffer | Pieces | undefined }>(`${path}/infer`, (request, reply) =>
      infer(request, request.body, reply, context, settings, heads),
    );
  }
}

function assertReady(catalog: ModelCatalog, model: ReadyModel): void {
  const { state, reason } = stateOf(catalog, model);
  if (state === 'READY') return;
  throw new InferError('UNAVAILABLE', `model ${model.name} version ${model.version} is not ready: ${reason}`);
}

/** The largest body: all of it is JSON, except in an infer request whose header says where the JSON ends. */
export function maxBytesOf(request: FastifyRequest, settings: HttpSettings): number {
  return request.headers[HEADER_LENGTH] === undefined || !isInfer(request)
    ? Math.min(settings.maxJsonBytes, settings.maxBodyBytes)
    : settings.maxBodyBytes;
}

/**
 * Binary tensors belong to infer alone, and so does compression, both ways: the asyncio client asks for it everywhere and
 * undoes it only there.
 */
export function isInfer({ routeOptions }: FastifyRequest): boolean {
  const { url, method } = routeOptions;
  return url?.endsWith('/infer') === true || (method === 'POST' && url?.endsWith('/jobs') === true);
}

/** Whether the body may come as Pieces: binary tensors, which are copied from there to where they run. */
export function takesPieces({ routeOptions, headers }: FastifyRequest): boolean {
  return headers[HEADER_LENGTH] !== undefined && routeOptions.url?.endsWith('/infer') === true;
}

/** Written without `async`: no promise is needed between the service's and the answer. */
function infer(
  request: ModelRequest,
  body: Buffer | Pieces | undefined,
  reply: FastifyReply,
  context: FacadeContext,
  settings: HttpSettings,
  heads: HeadCache,
): void {
  if (wantsJob(request.headers.prefer)) {
    answerWithJob(request, body && joinedOf(body), reply, context, settings, heads);
    return;
  }
  const { decoded, model, bytes } = readInferRequest(request, body, context, settings, heads);
  const call = context.openCall(reply, decoded);
  context.infer(decoded.request, call).then(
    (response) => {
      try {
        sendInferResponse(reply, encodeInferResponse(response, decoded, model), context);
        if (response.free) freeWhenSent(reply.raw, bytes, decoded.request, response);
      } catch (error) {
        sendInferError(reply, error, decoded, context);
      } finally {
        decoded.regions?.release();
      }
    },
    (error: unknown) => {
      decoded.regions?.release();
      sendInferError(reply, error, decoded, context);
    },
  );
}

/** An answer that was cut off may still be in the hands of the system. */
function freeWhenSent(
  reply: ServerResponse,
  body: Buffer | Pieces,
  { inputs }: InferRequest,
  response: InferResponse,
): void {
  reply.once('close', () => {
    if (!reply.writableFinished) return;
    response.free?.();
    freeRequest(inputs, body);
  });
}

function sendInferError(reply: FastifyReply, error: unknown, decoded: DecodedRequest, context: FacadeContext): void {
  context.sendError(reply, withRequestId(error, decoded.request.id));
}
