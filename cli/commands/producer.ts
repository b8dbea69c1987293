import { registerBullDashboard } from '../../producer/dashboard/bull-dashboard.ts';
import { registerPageRoutes } from '../../producer/dashboard/page-routes.ts';
import { CountingDispatcher } from '../../producer/dispatch/counting-dispatcher.ts';
import { createQueueDispatcher } from '../../producer/dispatch/queue-dispatcher.ts';
import { RedisJobStore } from '../../producer/service/jobs/redis-job-store.ts';
import { RedisWebhooks } from '../../producer/service/webhooks/redis-webhooks.ts';
import { WebhookSender } from '../../producer/service/webhooks/webhook-sender.ts';
import { RedisLimits } from '../../producer/service/limits/redis-limits.ts';
import { registerTenantMetrics } from '../../shared/runtime/tenant-metrics.ts';
import { registerPoolMetrics } from '../../shared/runtime/pool-metrics.ts';
import { registerSignatureMetrics } from '../../shared/runtime/signature-metrics.ts';
import { registerTrafficMetrics } from '../../shared/runtime/traffic-metrics.ts';
import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import type { MetricsServer } from '../../shared/runtime/metrics-server.ts';
import { closeOnFailure } from '../close-on-failure.ts';
import type { Settings } from '../flags/catalogue.ts';
import { listenMetrics, urlOf } from '../listen.ts';
import { loggerOf } from '../logger.ts';
import { parseMetricsConfig } from '../metrics-config.ts';
import { preprocessorOf } from '../preprocessor-of.ts';
import { parseCacheConfig } from '../../producer/service/cache/cache-settings.ts';
import { addCacheMetrics, createResponseStore } from '../response-cache.ts';
import { queueKeysOf } from '../queue-keys.ts';
import { createProtocols, encodeEnd, protocolRulesOf } from '../protocols.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';

const DASHBOARD_PATH = '/dashboard';

/** `millrace producer`: facades in front of the queue. Returns when it listens, whether workers are there or not. */
export async function producer(settings: Settings<'producer'>): Promise<void> {
  const rules = protocolRulesOf(settings);
  const cache = parseCacheConfig(settings.cacheConfig, settings.redis);
  const metricsOptions = parseMetricsConfig(settings.metricsConfig);
  const logger = loggerOf(settings);
  const keys = queueKeysOf(settings, logger);
  const queue = await createQueueDispatcher({
    redisUrl: settings.redis,
    logger,
    maxRequestsInFlight: settings.maxInflightRequests,
    maxBytesInFlight: settings.maxInflightBytes,
    latencyGoalMs: settings.latencyGoalMs,
    maxDesiredWorkers: settings.maxDesiredWorkers,
    readyWithoutWorkers: !settings.strictReadiness,
    keys,
  });
  const dispatcher = new CountingDispatcher(queue);
  const responseStore = cache && (await createResponseStore(cache, logger, keys));
  const { redis: redisUrl, maxOpenJobs: maxOpen } = settings;
  const tenants = rules.keys?.tenants;
  const shareOf = tenants && ((name: string, all: number) => tenants.jobsOf(name, all));
  const bytesOf = tenants && ((name: string) => tenants.jobBytesOf(name));
  const jobStore = new RedisJobStore({ pool: queue.pool, redisUrl, maxOpen, shareOf, bytesOf, logger });
  await jobStore.start();
  const webhooks =
    rules.webhooks &&
    new RedisWebhooks({
      redisUrl,
      store: jobStore,
      sender: new WebhookSender(rules.webhooks),
      encode: encodeEnd,
      keys,
      logger,
    });
  await webhooks?.start();
  const limits = new RedisLimits({ redis: queue.pool.redis, link: queue.pool.link, logger });
  const preprocessor = preprocessorOf(settings, logger);
  const { httpAddress: listenAddress, dashboardToken: token, dashboardReadToken: readToken } = settings;
  const protocols = createProtocols(settings, {
    dispatcher,
    responseStore,
    trafficStore: queue.traffic,
    pool: queue.monitor,
    jobStore,
    limits,
    preprocessor,
    rules,
    logger,
    facades: [
      (scope) => registerPageRoutes(scope, { dashboardPath: `${DASHBOARD_PATH}/` }),
      (scope) =>
        registerBullDashboard(scope, {
          queues: () => [...queue.queues(), ...(webhooks?.queues() ?? [])],
          redis: queue.pool.redis,
          basePath: DASHBOARD_PATH,
          listenAddress,
          token,
          readToken,
          logger,
        }),
    ],
  });
  let metrics: MetricsServer | undefined;
  const close = async (graceMs: number): Promise<void> => {
    await webhooks?.close(graceMs);
    await protocols.close(graceMs);
    await dispatcher.close(graceMs);
    await preprocessor.close();
    await metrics?.close();
    await responseStore?.close();
  };
  const { url, grpcAddress } = await closeOnFailure(close, async () => {
    const registry = createMetricsRegistry(dispatcher, metricsOptions);
    if (responseStore) addCacheMetrics(registry, responseStore, dispatcher);
    registerTrafficMetrics(registry, protocols.traffic);
    registerPoolMetrics(registry, queue.monitor);
    if (protocols.tenants) registerTenantMetrics(registry, protocols.tenants);
    if (keys) registerSignatureMetrics(registry, keys);
    metrics = await listenMetrics(settings, registry, logger);
    return protocols.listen();
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
