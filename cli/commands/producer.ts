import { createApp } from '../../producer/app.ts';
import { registerBullDashboard } from '../../producer/dashboard/bull-dashboard.ts';
import { registerPageRoutes } from '../../producer/dashboard/page-routes.ts';
import { CountingDispatcher } from '../../producer/dispatch/counting-dispatcher.ts';
import { createQueueDispatcher } from '../../producer/dispatch/queue-dispatcher.ts';
import { registerHuggingFaceRoutes } from '../../producer/facade/huggingface/routes.ts';
import { registerOpenAiRoutes } from '../../producer/facade/openai/routes.ts';
import { registerOpenApiRoutes } from '../../producer/facade/openapi/routes.ts';
import { createGrpcServer } from '../../producer/facade/triton-grpc/server.ts';
import { parseRestrictions } from '../../producer/service/restricted-access.ts';
import { createServices } from '../../producer/service/services.ts';
import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import type { MetricsServer } from '../../shared/runtime/metrics-server.ts';
import { closeOnFailure } from '../close-on-failure.ts';
import type { Settings } from '../flags/catalogue.ts';
import { grpcSettingsOf } from '../grpc-settings.ts';
import { httpSettingsOf } from '../http-settings.ts';
import { assertAnyProtocol, listenGrpc, listenHttp, listenMetrics, urlOf } from '../listen.ts';
import { logSettingsOf } from '../log-settings.ts';
import { loggerOf } from '../logger.ts';
import { preprocessorOf } from '../preprocessor-of.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';
import { VERSION } from '../version.ts';

const DASHBOARD_PATH = '/dashboard';

/** `millrace producer`: facades in front of the queue. Returns when it listens, whether workers are there or not. */
export async function producer(settings: Settings<'producer'>): Promise<void> {
  assertAnyProtocol(settings);
  const restrictions = parseRestrictions('--http-restricted-api', settings.httpRestrictedApi);
  const grpcRestrictions = parseRestrictions('--grpc-restricted-protocol', settings.grpcRestrictedProtocol);
  const logger = loggerOf(settings);
  const queue = await createQueueDispatcher({
    redisUrl: settings.redis,
    logger,
    maxRequestsInFlight: settings.maxInflightRequests,
    maxBytesInFlight: settings.maxInflightBytes,
  });
  const dispatcher = new CountingDispatcher(queue);
  const preprocessor = preprocessorOf(settings, logger);
  const { httpAddress: listenAddress, dashboardToken: token } = settings;
  const http = httpSettingsOf(settings);
  const logSettings = logSettingsOf(settings, logger);
  const services = createServices({ dispatcher, settings: http, logger, logSettings, version: VERSION });
  const app = createApp({
    services,
    settings: http,
    restrictions,
    facades: [
      (scope) => registerPageRoutes(scope, { dashboardPath: `${DASHBOARD_PATH}/` }),
      (scope, context) => registerHuggingFaceRoutes(scope, context, preprocessor),
      (scope, context) => registerOpenAiRoutes(scope, context, preprocessor),
      (scope, context) => registerOpenApiRoutes(scope, context, { preprocessor, restrictions }),
      (scope) =>
        registerBullDashboard(scope, {
          queues: () => queue.queues(),
          basePath: DASHBOARD_PATH,
          listenAddress,
          token,
          logger,
        }),
    ],
  });
  const grpc = settings.allowGrpc
    ? createGrpcServer({ services, settings: grpcSettingsOf(settings), restrictions: grpcRestrictions })
    : undefined;
  let metrics: MetricsServer | undefined;
  const close = async (graceMs: number): Promise<void> => {
    await Promise.all([app.close(), grpc?.close(graceMs)]);
    await dispatcher.close(graceMs);
    services.sharedMemory.close();
    await preprocessor.close();
    await metrics?.close();
  };
  const { url, grpcAddress } = await closeOnFailure(close, async () => {
    metrics = await listenMetrics(settings, createMetricsRegistry(dispatcher), logger);
    const grpcAddress = grpc && (await listenGrpc(grpc, settings.grpcAddress, settings.grpcPort));
    return { url: await listenHttp(app, settings), grpcAddress };
  });
  closeOnSignal(close, settings.exitTimeoutSecs * 1000, logger);
  await printStarted({
    command: 'producer',
    url,
    grpcAddress,
    metricsUrl: metrics && `${urlOf(settings.metricsAddress, metrics.port)}/metrics`,
    catalog: dispatcher.catalog,
    profile: (model) => preprocessor.profile(model),
    more: url === undefined ? [] : [['dashboard', `${url}${DASHBOARD_PATH}/`]],
  });
}
