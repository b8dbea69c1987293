import { registerPageRoutes } from '../../producer/dashboard/page-routes.ts';
import { MemoryTrafficStore } from '../../producer/service/traffic/memory-traffic-store.ts';
import { registerTenantMetrics } from '../../shared/runtime/tenant-metrics.ts';
import { registerTrafficMetrics } from '../../shared/runtime/traffic-metrics.ts';
import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import type { MetricsServer } from '../../shared/runtime/metrics-server.ts';
import { closeOnFailure } from '../close-on-failure.ts';
import type { Settings } from '../flags/catalogue.ts';
import { leaveWithParent } from '../leave-with-parent.ts';
import { listenMetrics, urlOf } from '../listen.ts';
import { loadEngine } from '../load-engine.ts';
import { LocalPool } from '../local-pool.ts';
import { loggerOf } from '../logger.ts';
import { parseMetricsConfig } from '../metrics-config.ts';
import { preprocessorOf } from '../preprocessor-of.ts';
import { parseCacheConfig } from '../../producer/service/cache/cache-settings.ts';
import { addCacheMetrics, createResponseStore, warnWithoutCache } from '../response-cache.ts';
import { createProtocols, protocolRulesOf } from '../protocols.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';
import { type GpuFigures, watchGpus } from '../watch-gpus.ts';

/** `millrace serve`: facades and engine in one process. Returns when everything is ready. */
export async function serve(settings: Settings<'serve'>): Promise<void> {
  const rules = protocolRulesOf(settings);
  const cache = parseCacheConfig(settings.cacheConfig);
  const metricsOptions = parseMetricsConfig(settings.metricsConfig);
  const logger = loggerOf(settings);
  const engine = await loadEngine(settings, logger, cache !== undefined);
  if (!cache) warnWithoutCache(engine, logger);
  const responseStore = cache && (await createResponseStore(cache, logger));
  const preprocessor = preprocessorOf(settings, logger);
  let gpus: GpuFigures | undefined;
  const pool = new LocalPool(engine, () => gpus?.readings() ?? []);
  const protocols = createProtocols(settings, {
    dispatcher: engine,
    pool,
    responseStore,
    trafficStore: new MemoryTrafficStore(),
    preprocessor,
    rules,
    logger,
    facades: [(scope) => registerPageRoutes(scope)],
  });
  let metrics: MetricsServer | undefined;
  const close = async (graceMs: number): Promise<void> => {
    await protocols.close(graceMs);
    await engine.close(graceMs);
    pool.close();
    await preprocessor.close();
    gpus?.close();
    await metrics?.close();
    await responseStore?.close();
  };
  const { url, grpcAddress } = await closeOnFailure(close, async () => {
    const registry = createMetricsRegistry(engine, metricsOptions);
    gpus = watchGpus(settings.gpuDir, registry, logger);
    if (responseStore) addCacheMetrics(registry, responseStore, engine);
    registerTrafficMetrics(registry, protocols.traffic);
    if (protocols.tenants) registerTenantMetrics(registry, protocols.tenants);
    metrics = await listenMetrics(settings, registry, logger);
    return protocols.listen();
  });
  leaveWithParent(closeOnSignal(close, settings.exitTimeoutSecs * 1000, logger));
  await printStarted({
    command: 'serve',
    url,
    grpcAddress,
    metricsUrl: metrics && `${urlOf(settings.metricsAddress, metrics.port)}/metrics`,
    catalog: engine.catalog,
    profile: (model) => preprocessor.profile(model),
  });
}
