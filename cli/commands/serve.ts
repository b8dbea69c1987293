import { createApp } from '../../producer/app.ts';
import { registerPageRoutes } from '../../producer/dashboard/page-routes.ts';
import { registerHuggingFaceRoutes } from '../../producer/facade/huggingface/routes.ts';
import { registerOpenAiRoutes } from '../../producer/facade/openai/routes.ts';
import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import type { MetricsServer } from '../../shared/runtime/metrics-server.ts';
import { closeOnFailure } from '../close-on-failure.ts';
import type { Settings } from '../flags/catalogue.ts';
import { httpSettingsOf } from '../http-settings.ts';
import { listenHttp, listenMetrics, urlOf } from '../listen.ts';
import { loadEngine } from '../load-engine.ts';
import { loggerOf } from '../logger.ts';
import { preprocessorOf } from '../preprocessor-of.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';
import { VERSION } from '../version.ts';

/** `millrace serve`: facades and engine in one process. Returns when everything is ready. */
export async function serve(settings: Settings<'serve'>): Promise<void> {
  const logger = loggerOf(settings);
  const engine = await loadEngine(settings, logger);
  const preprocessor = preprocessorOf(settings, logger);
  const app = createApp({
    dispatcher: engine,
    settings: httpSettingsOf(settings),
    logger,
    version: VERSION,
    facades: [
      (scope) => registerPageRoutes(scope),
      (scope, context) => registerHuggingFaceRoutes(scope, context, preprocessor),
      (scope, context) => registerOpenAiRoutes(scope, context, preprocessor),
    ],
  });
  const registry = createMetricsRegistry(engine);
  let metrics: MetricsServer | undefined;
  const close = async (graceMs: number): Promise<void> => {
    await app.close();
    await engine.close(graceMs);
    await preprocessor.close();
    await metrics?.close();
  };
  const url = await closeOnFailure(close, async () => {
    metrics = await listenMetrics(settings, registry, logger);
    return listenHttp(app, settings.httpAddress, settings.httpPort);
  });
  closeOnSignal(close, settings.exitTimeoutSecs * 1000, logger);
  await printStarted({
    command: 'serve',
    url,
    metricsUrl: metrics && `${urlOf(settings.metricsAddress, metrics.port)}/metrics`,
    catalog: engine.catalog,
    profile: (model) => preprocessor.profile(model),
  });
}
