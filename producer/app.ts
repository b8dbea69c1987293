import fastify, { type FastifyInstance } from 'fastify';
import type { Dispatcher } from '../shared/infer/ports.ts';
import { type Clock, systemClock } from '../shared/runtime/clock.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import type { Facade, FacadeContext } from './facade/facade-context.ts';
import { maxInferBytes, registerTritonHttpRoutes } from './facade/triton-http/routes.ts';
import { sendError } from './http/error-reply.ts';
import { answerBrokenRequest, createHttpServer, type HttpServer } from './http/http-server.ts';
import type { HttpSettings } from './http/http-settings.ts';
import { registerNotFound } from './http/not-found.ts';
import { openCall } from './http/open-call.ts';
import { acceptAnyBody } from './http/accept-any-body.ts';
import { createRequestIds } from './http/request-ids.ts';
import { sendBody } from './http/send-body.ts';
import { Admission } from './service/admission.ts';
import { createService } from './service/inference-service.ts';

export interface AppOptions {
  /** Not closed by the application. */
  readonly dispatcher: Dispatcher;
  readonly settings: HttpSettings;
  readonly logger: Logger;
  /** Millrace's own version. */
  readonly version: string;
  /** Further protocols beside KServe v2, each in a scope of its own. */
  readonly facades?: readonly Facade[];
  readonly clock?: Clock;
}

/**
 * The HTTP application, ready to `listen`. Its `close` answers requests under way, refuses new ones with 503, and cuts
 * what is left after `drainTimeoutMs`.
 */
export function createApp(options: AppOptions): FastifyInstance {
  const { settings, logger } = options;
  const admission = new Admission(settings);
  const context = createContext(options, admission);
  // One, or two when it listens on `localhost`: Fastify then binds both address families.
  const servers: HttpServer[] = [];
  const app = fastify({
    serverFactory: (handler) => {
      const http = createHttpServer(settings, handler);
      servers.push(http);
      return http.server;
    },
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (error, _request, reply) => sendError(reply, error, logger),
    genReqId: createRequestIds(),
    bodyLimit: settings.maxBodyBytes,
    routerOptions: { maxParamLength: 256 },
    // The server refuses requests while it drains before Fastify sees them.
    return503OnClosing: false,
  });
  app.addHook('preClose', (done) => {
    for (const http of servers) http.drain();
    done();
  });
  app.addHook('onClose', (_app, done) => {
    for (const http of servers) http.drained();
    done();
  });
  app.setErrorHandler((error, _request, reply) => sendError(reply, error, logger));
  registerNotFound(app);
  acceptAnyBody(app, admission, (request) => request.routeOptions.bodyLimit);
  app.register((scope, _options, done) => {
    acceptAnyBody(scope, admission, (request) => maxInferBytes(request.headers, settings));
    registerTritonHttpRoutes(scope, context, settings);
    done();
  });
  for (const facade of options.facades ?? []) {
    app.register(async (scope) => {
      await facade(scope, context);
    });
  }
  return app;
}

function createContext(options: AppOptions, admission: Admission): FacadeContext {
  const { dispatcher, settings, logger, version, clock = systemClock } = options;
  return {
    catalog: dispatcher.catalog,
    infer: createService(dispatcher, admission, clock),
    ready: () => dispatcher.ready(),
    openCall: (reply, callOptions) => openCall(reply, settings.requestTimeoutMs, clock, callOptions),
    sendError: (reply, error) => sendError(reply, error, logger),
    sendBody: (reply, body) => sendBody(reply, body, settings.sendTimeoutMs, admission),
    version,
    logger,
  };
}
