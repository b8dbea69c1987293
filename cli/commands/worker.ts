import { createMetricsRegistry } from '../../shared/runtime/metrics.ts';
import type { MetricsServer } from '../../shared/runtime/metrics-server.ts';
import { registerFailureMetrics } from '../../shared/runtime/failure-metrics.ts';
import { registerSignatureMetrics } from '../../shared/runtime/signature-metrics.ts';
import { type Consumer, createConsumer, type WorkerEngine } from '../../worker/consumer/create-consumer.ts';
import { FailureStreak } from '../../worker/consumer/failure-streak.ts';
import { gpusInUse } from '../../worker/consumer/gpus-in-use.ts';
import type { Engine } from '../../worker/engine/engine.ts';
import { closeOnFailure } from '../close-on-failure.ts';
import { parseDuration } from '../duration.ts';
import type { Settings } from '../flags/catalogue.ts';
import { listenMetrics, urlOf } from '../listen.ts';
import { leaveWhenIdle } from '../idle-exit.ts';
import { loadEngine } from '../load-engine.ts';
import { loggerOf } from '../logger.ts';
import { parseMetricsConfig } from '../metrics-config.ts';
import { queueKeysOf } from '../queue-keys.ts';
import { closeOnSignal } from '../shutdown.ts';
import { printStarted } from '../started.ts';
import { type GpuFigures, watchGpus } from '../watch-gpus.ts';

const JOINING = { ok: false, reason: 'the worker has not joined the pool yet' } as const;

/** `millrace worker`: an engine that drains the queue. Returns when it takes work. */
export async function worker(settings: Settings<'worker'>): Promise<void> {
  const metricsOptions = parseMetricsConfig(settings.metricsConfig);
  const idleMs = settings.idleExit === undefined ? undefined : parseDuration('--idle-exit', settings.idleExit);
  const logger = loggerOf(settings);
  const keys = queueKeysOf(settings, logger);
  const engine = await loadEngine(settings, logger, true);
  let metrics: MetricsServer | undefined;
  let consumer: Consumer | undefined;
  let figures: GpuFigures | undefined;
  const drain = new AbortController();
  let leaving = false;
  const close = async (graceMs: number): Promise<void> => {
    leaving = true;
    await consumer?.close(graceMs);
    await engine.close(graceMs);
    figures?.close();
    await metrics?.close();
  };
  const onDrain = () => drain.abort();
  const { maxFailuresInRow } = settings;
  const counts = maxFailuresInRow > 0;
  const failures = new FailureStreak(maxFailuresInRow, () => {
    logger.error({ failures: maxFailuresInRow }, 'every request fails here, the worker leaves');
    leave('every request fails', 1);
  });
  // Before it joins: a signal must not lose what it takes as soon as it has.
  const leave = closeOnSignal(close, settings.exitTimeoutSecs * 1000, logger);
  const joined = await closeOnFailure(close, async () => {
    const ready = () => consumer?.ready() ?? JOINING;
    const registry = createMetricsRegistry(engine, metricsOptions);
    figures = watchGpus(settings.gpuDir, registry, logger);
    metrics = await listenMetrics(settings, registry, logger, ready);
    const retentionMs = settings.modelRetentionSecs * 1000;
    const poolEngine = { ...poolEngineOf(engine), ...(counts && { infer: failures.wrap(engine.infer) }) };
    if (counts) registerFailureMetrics(registry, failures);
    const gpus = () => gpusInUse(engine.catalog, figures?.readings() ?? []);
    if (keys) registerSignatureMetrics(registry, keys);
    const { redis: redisUrl } = settings;
    consumer = await createConsumer({ redisUrl, engine: poolEngine, logger, retentionMs, gpus, keys, onDrain });
    if (leaving) await consumer.close(0);
    return consumer;
  });
  const { workerId } = joined;
  if (drain.signal.aborted) leave('drained');
  drain.signal.addEventListener('abort', () => leave('drained'));
  if (idleMs !== undefined) leaveWhenIdle({ consumer: joined, idleMs, leave, logger });
  await printStarted({
    command: `worker ${workerId}`,
    url: undefined,
    metricsUrl: metrics && `${urlOf(settings.metricsAddress, metrics.port)}/metrics`,
    catalog: engine.catalog,
  });
}

/** What of the engine the pool may use: its models are changed on request only in explicit mode. */
function poolEngineOf(engine: Engine): WorkerEngine {
  const { infer, catalog, control, controlled } = engine;
  return {
    infer,
    catalog,
    ...(controlled && { control }),
    stats: () => engine.stats(),
    wake: (model) => engine.wake(model),
    takeTurns: (turns) => engine.takeTurns(turns),
  };
}
