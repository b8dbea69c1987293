import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import { encodeModelConfigJson } from '../../../shared/model/config-json.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import { HttpError } from '../../http/http-error.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import type { FacadeContext } from '../facade-context.ts';
import {
  decodeInferRequest,
  type DecodedRequest,
  type EncodedResponse,
  encodeInferResponse,
  withRequestId,
} from './codec.ts';
import { HeadCache } from './head-cache.ts';
import { parseJsonDocument } from './json-document.ts';
import { modelMetadata, repositoryIndex, serverMetadata } from './metadata.ts';

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

  app.get('/v2', (_request, reply) => sendJson(reply, JSON.stringify(serverMetadata(context.version))));
  app.get('/v2/health/live', (_request, reply) => reply.send());
  app.get('/v2/health/ready', (_request, reply) =>
    reply.code(catalog.ready() && context.ready().ok ? 200 : 400).send(),
  );
  app.post<{ Body: Buffer | undefined }>('/v2/repository/index', (request, reply) =>
    sendJson(reply, JSON.stringify(repositoryIndex(catalog.list(), decodeReadyFilter(request.body)))),
  );

  // Versions are digits; anything else falls through to 404.
  for (const path of ['/v2/models/:model', '/v2/models/:model/versions/:version(^[0-9]+$)']) {
    app.get<ModelRoute>(path, (request, reply) =>
      sendJson(reply, JSON.stringify(modelMetadata(modelOf(request), request.params.version))),
    );
    app.get<ModelRoute>(`${path}/ready`, (request, reply) => {
      assertReady(catalog, modelOf(request));
      return reply.send();
    });
    app.get<ModelRoute>(`${path}/config`, (request, reply) =>
      sendJson(reply, encodeModelConfigJson(modelOf(request).config)),
    );
    app.post<ModelRoute & { Body: Buffer | undefined }>(`${path}/infer`, (request, reply) =>
      infer(request, request.body, reply, context, settings, heads),
    );
  }
}

/** A model that can be called is not always ready: behind the queue it may be waiting for its first worker. */
function assertReady(catalog: ModelCatalog, { name, version }: ReadyModel): void {
  const found = catalog.list().find((state) => state.name === name && state.version === version);
  if (found === undefined || found.state === 'READY') return;
  throw new InferError('UNAVAILABLE', `model ${name} version ${version} is not ready: ${found.reason}`);
}

/** The largest body of an infer request: without the header that says where the JSON ends, all of it is JSON. */
export function maxInferBytes(headers: IncomingHttpHeaders, settings: HttpSettings): number {
  return headers[HEADER_LENGTH] === undefined
    ? Math.min(settings.maxJsonBytes, settings.maxBodyBytes)
    : settings.maxBodyBytes;
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
  assertPlainEncoding(request, reply);
  const { model: name, version = '' } = request.params;
  const model = context.catalog.resolve(name, version);
  const headerLength = singleHeader(request.headers[HEADER_LENGTH]);
  const bytes = body ?? Buffer.alloc(0);
  if (Math.min(Number(headerLength), bytes.length) > settings.maxJsonBytes) throw jsonTooLarge(settings.maxJsonBytes);
  const decoded = decodeInferRequest(bytes, headerLength, model, version, heads);
  const call = context.openCall(reply, decoded);
  context.infer(decoded.request, call).then(
    (response) => {
      try {
        sendInferResponse(reply, encodeInferResponse(response, decoded, model), context);
      } catch (error) {
        sendInferError(reply, error, decoded, context);
      }
    },
    (error: unknown) => sendInferError(reply, error, decoded, context),
  );
}

function sendInferResponse(reply: FastifyReply, { body, jsonLength }: EncodedResponse, context: FacadeContext): void {
  if (jsonLength === undefined) {
    reply.header('content-type', 'application/json');
  } else {
    reply.header('content-type', 'application/octet-stream');
    reply.header(HEADER_LENGTH, jsonLength);
  }
  context.sendBody(reply, body);
}

function sendInferError(reply: FastifyReply, error: unknown, decoded: DecodedRequest, context: FacadeContext): void {
  context.sendError(reply, withRequestId(error, decoded.request.id));
}

/** Compressed bodies are refused rather than read as JSON; the answer says what is understood. */
function assertPlainEncoding(request: FastifyRequest, reply: FastifyReply): void {
  const encoding = request.headers['content-encoding'];
  if (encoding === undefined || encoding.toLowerCase() === 'identity') return;
  reply.header('accept-encoding', 'identity');
  throw new HttpError(415, `content-encoding ${shownText(encoding)} is not supported, send the body uncompressed`);
}

function singleHeader(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.join(', ');
}

function jsonTooLarge(maxJsonBytes: number): HttpError {
  return new HttpError(413, `the JSON part of the request is larger than the limit of ${maxJsonBytes} bytes`);
}

function decodeReadyFilter(body: Buffer | undefined): boolean {
  if (!body || body.length === 0) return false;
  const { ready = false } = parseJsonDocument(body, body.length).root;
  if (typeof ready === 'boolean') return ready;
  throw new InferError('INVALID_ARGUMENT', `ready must be true or false, got ${shownValue(ready)}`);
}

function sendJson(reply: FastifyReply, text: string): FastifyReply {
  return reply.header('content-type', 'application/json').send(text);
}
