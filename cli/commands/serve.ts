import { registerPageRoutes } from '../../producer/dashboard/page-routes.ts';
import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import type { MetricsServer } from '../../shared/runtime/metrics-server.ts';
import { closeOnFailure } from '../close-on-failure.ts';
import type { Settings } from '../flags/catalogue.ts';
import { listenMetrics, urlOf } from '../listen.ts';
import { loadEngine } from '../load-engine.ts';
import { loggerOf } from '../logger.ts';
import { preprocessorOf } from '../preprocessor-of.ts';
import { createProtocols, protocolRulesOf } from '../protocols.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';

/** `millrace serve`: facades and engine in one process. Returns when everything is ready. */
export async function serve(settings: Settings<'serve'>): Promise<void> {
  const rules = protocolRulesOf(settings);
  const logger = loggerOf(settings);
  const engine = await loadEngine(settings, logger);
  const preprocessor = preprocessorOf(settings, logger);
  const protocols = createProtocols(settings, {
    dispatcher: engine,
    preprocessor,
    rules,
    logger,
    facades: [(scope) => registerPageRoutes(scope)],
  });
  let metrics: MetricsServer | undefined;
  const close = async (graceMs: number): Promise<void> => {
    await protocols.close(graceMs);
    await engine.close(graceMs);
    await preprocessor.close();
    await metrics?.close();
  };
  const { url, grpcAddress } = await closeOnFailure(close, async () => {
    metrics = await listenMetrics(settings, createMetricsRegistry(engine), logger);
    return protocols.listen();
  });
  closeOnSignal(close, settings.exitTimeoutSecs * 1000, logger);
  await printStarted({
    command: 'serve',
    url,
    grpcAddress,
    metricsUrl: metrics && `${urlOf(settings.metricsAddress, metrics.port)}/metrics`,
    catalog: engine.catalog,
    profile: (model) => preprocessor.profile(model),
  });
}
