import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import { createConsumer } from '../../worker/consumer/create-consumer.ts';
import type { Settings } from '../flags/catalogue.ts';
import { listenMetrics, urlOf } from '../listen.ts';
import { loadEngine } from '../load-engine.ts';
import { loggerOf } from '../logger.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';

/** `millrace worker`: an engine that drains the queue. Returns when it takes work. */
export async function worker(settings: Settings<'worker'>): Promise<void> {
  const logger = loggerOf(settings);
  const engine = await loadEngine(settings, logger);
  const metrics = await listenMetrics(settings, createMetricsRegistry(engine), logger);
  const consumer = await createConsumer({ redisUrl: settings.redis, engine, logger });
  closeOnSignal(
    async (graceMs) => {
      await consumer.close(graceMs);
      await engine.close(graceMs);
      await metrics?.close();
    },
    settings.exitTimeoutSecs * 1000,
    logger,
  );
  await printStarted({
    command: `worker ${consumer.workerId}`,
    url: undefined,
    metricsUrl: metrics && `${urlOf(settings.metricsAddress, metrics.port)}/metrics`,
    catalog: engine.catalog,
  });
}
