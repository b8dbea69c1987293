import fastify, { type FastifyInstance } from 'fastify';
import { registerBulkRoutes } from './facade/bulk/routes.ts';
import type { Facade, FacadeContext } from './facade/facade-context.ts';
import { isInfer, maxBytesOf, registerTritonHttpRoutes, takesPieces } from './facade/triton-http/routes.ts';
import { requireKeys } from './http/api-keys.ts';
import { sendError } from './http/error-reply.ts';
import { answerBrokenRequest, createHttpServer, type HttpServer } from './http/http-server.ts';
import type { HttpSettings } from './http/http-settings.ts';
import { wakeModels } from './http/wake-models.ts';
import { registerNotFound } from './http/not-found.ts';
import { openCall } from './http/open-call.ts';
import { acceptAnyBody } from './http/accept-any-body.ts';
import { createRequestIds } from './http/request-ids.ts';
import { restrictRoutes } from './http/restricted-api.ts';
import { sendBody } from './http/send-body.ts';
import { NO_RESTRICTIONS, type Restrictions } from './service/restricted-access.ts';
import type { Services } from './service/services.ts';

export interface AppOptions {
  readonly services: Services;
  readonly settings: HttpSettings;
  /** Further protocols beside KServe v2, each in a scope of its own. */
  readonly facades?: readonly Facade[];
  /** Which routes need a header; none unless given. */
  readonly restrictions?: Restrictions;
}

/**
 * The HTTP application, ready to `listen`. Its `close` answers requests under way, refuses new ones with 503, and cuts
 * what is left after `drainTimeoutMs`.
 */
export function createApp(options: AppOptions): FastifyInstance {
  const { services, settings } = options;
  const { admission, logger } = services;
  const context = createContext(services, settings);
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
  if (services.tenants) requireKeys(app, services.tenants);
  restrictRoutes(app, options.restrictions ?? NO_RESTRICTIONS);
  wakeModels(app, services);
  acceptAnyBody(app, admission, (request) => request.routeOptions.bodyLimit);
  app.register((scope, _options, done) => {
    acceptAnyBody(scope, admission, (request) => maxBytesOf(request, settings), isInfer, takesPieces);
    registerTritonHttpRoutes(scope, context, settings);
    done();
  });
  app.register((scope, _options, done) => {
    registerBulkRoutes(scope, context, settings);
    done();
  });
  for (const facade of options.facades ?? []) {
    app.register(async (scope) => {
      await facade(scope, context);
    });
  }
  return app;
}

function createContext(services: Services, { sendTimeoutMs }: HttpSettings): FacadeContext {
  const { requestTimeoutMs, clock, logger, admission } = services;
  return {
    ...services,
    openCall: (reply, callOptions) => openCall(reply, requestTimeoutMs, clock, callOptions),
    sendError: (reply, error) => sendError(reply, error, logger),
    sendBody: (reply, body) => sendBody(reply, body, sendTimeoutMs, admission),
  };
}
