import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { encodeModelConfigJson } from '../../../shared/model/config-json.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { freeMemory } from '../../../shared/tensor/free-memory.ts';
import { compressBody } from '../../http/compress-body.ts';
import { type ContentCoding, pickCoding } from '../../http/content-coding.ts';
import { HttpError } from '../../http/http-error.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import { type AnswerBody, joinedBody } from '../../http/send-body.ts';
import type { FacadeContext } from '../facade-context.ts';
import { stateOf } from '../triton/known-model.ts';
import { modelMetadata, serverMetadata } from '../triton/metadata.ts';
import { withRequestId } from '../triton/request-id.ts';
import { decodeInferRequest, type DecodedRequest, type EncodedResponse, encodeInferResponse } from './codec.ts';
import { registerGenerateRoutes } from './generate-routes.ts';
import { HeadCache } from './head-cache.ts';
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

const HEADER_LENGTH = 'inference-header-content-length';

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

  // Versions are digits; anything else falls through to 404.
  for (const path of ['/v2/models/:model', '/v2/models/:model/versions/:version(^[0-9]+$)']) {
    app.get<ModelRoute>(path, (request, reply) =>
      sendJson(reply, modelMetadata(modelOf(request), request.params.version)),
    );
    app.get<ModelRoute>(`${path}/ready`, (request, reply) => {
      assertReady(catalog, modelOf(request));
      return reply.send();
    });
    app.get<ModelRoute>(`${path}/config`, (request, reply) =>
      sendJsonText(reply, encodeModelConfigJson(modelOf(request).config)),
    );
    app.post<ModelRoute & { Body: Buffer | undefined }>(`${path}/infer`, (request, reply) =>
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
  return routeOptions.url?.endsWith('/infer') === true;
}

/** Written without `async`: no promise is needed between the service's and the answer. */
function infer(
  request: ModelRequest,
  body: Buffer | undefined,
  reply: FastifyReply,
  context: FacadeContext,
  settings: HttpSettings,
  heads: HeadCache,
): void {
  const { model: name, version = '' } = request.params;
  const model = context.catalog.resolve(name, version);
  const headerLength = singleHeader(request.headers[HEADER_LENGTH]);
  const bytes = body ?? Buffer.alloc(0);
  if (Math.min(Number(headerLength), bytes.length) > settings.maxJsonBytes) throw jsonTooLarge(settings.maxJsonBytes);
  const decoded = decodeInferRequest(bytes, headerLength, model, version, heads, context.sharedMemory);
  const call = context.openCall(reply, decoded);
  context.infer(decoded.request, call).then(
    (response) => {
      try {
        sendInferResponse(reply, encodeInferResponse(response, decoded, model), context);
        if (response.free) freeWhenSent(reply.raw, bytes, response);
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
function freeWhenSent(reply: ServerResponse, body: Buffer, response: InferResponse): void {
  reply.once('close', () => {
    if (!reply.writableFinished) return;
    response.free?.();
    freeMemory(body);
  });
}

function sendInferResponse(reply: FastifyReply, { body, jsonLength }: EncodedResponse, context: FacadeContext): void {
  if (jsonLength === undefined) {
    reply.header('content-type', 'application/json');
  } else {
    reply.header('content-type', 'application/octet-stream');
    reply.header(HEADER_LENGTH, jsonLength);
  }
  const wish = reply.request.headers['accept-encoding'];
  const coding = wish === undefined ? undefined : pickCoding(wish);
  if (coding === undefined) context.sendBody(reply, body);
  else sendCompressed(reply, body, coding, context);
}

function sendCompressed(reply: FastifyReply, body: AnswerBody, coding: ContentCoding, context: FacadeContext): void {
  compressBody(joinedBody(body), coding, context.admission, (error, packed) => {
    if (error) {
      reply.removeHeader(HEADER_LENGTH);
      context.sendError(reply, error);
      return;
    }
    reply.header('content-encoding', coding);
    context.sendBody(reply, packed);
  });
}

function sendInferError(reply: FastifyReply, error: unknown, decoded: DecodedRequest, context: FacadeContext): void {
  context.sendError(reply, withRequestId(error, decoded.request.id));
}

function singleHeader(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.join(', ');
}

function jsonTooLarge(maxJsonBytes: number): HttpError {
  return new HttpError(413, `the JSON part of the request is larger than the limit of ${maxJsonBytes} bytes`);
}
