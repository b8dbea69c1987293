import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';
import { type GpuPulse, type ModelPulse, encodeWorkerPulse, PULSE_MS } from '../../shared/directory/worker-pulse.ts';
import { WORKER_TTL_MS } from '../../shared/directory/worker-record.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RedisLink } from '../../shared/runtime/redis-link.ts';
import { drainKey, encodeModelName, pulseKey, SPEEDS_KEY } from '../../shared/wire/names.ts';
import type { QueueKeys } from '../../shared/wire/queue-keys.ts';
import { openText } from '../../shared/wire/sealed.ts';
import { type MeteredEngine, SpeedMeter } from './speed-meter.ts';

/** What a worker has in hand of one model. */
export interface ModelActivity {
  readonly rows: number;
  /** When it last took or answered a job, on `performance.now()`; undefined before the first. */
  readonly lastJobMs: number | undefined;
}

export interface PulseOptions {
  readonly redis: Redis;
  readonly link: RedisLink;
  readonly workerId: string;
  readonly engine: MeteredEngine;
  /** By model name, those that it takes jobs for. */
  readonly activity: () => ReadonlyMap<string, ModelActivity>;
  readonly requestsInHand: () => number;
  /** Those that its models run on now. */
  readonly gpus?: () => readonly GpuPulse[];
  /** The pool asks this worker to finish what it has and leave. Called once. */
  readonly onDrain: () => void;
  /** Checks who asks it to leave; undefined where everybody may. */
  readonly keys?: QueueKeys | undefined;
  readonly logger: Logger;
}

/** A model whose runs come from elsewhere (an ensemble) is not at work for the queue, in ms. */
const AT_WORK_MS = 60_000;
/** Speeds are known this long after the last worker has left, in ms. */
const SPEEDS_TTL_MS = 7 * 24 * 3_600_000;
/** After which a speed is told again, changed or not. */
const TELL_AGAIN_MS = 3_600_000;
const NS_PER_MS = 1e6;

/** Tells the pool once a second what this worker is doing and how fast it is, and hears whether it is to leave. */
export class Pulse {
  readonly #options: PulseOptions;
  readonly #meter: SpeedMeter;
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });
  #loop = performance.eventLoopUtilization();
  /** Speeds as they were told last. */
  readonly #told = new Map<string, string>();
  #toldAllMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #beating = false;
  #asked = false;

  constructor(options: PulseOptions) {
    this.#options = options;
    this.#meter = new SpeedMeter(options.engine);
  }

  start(): void {
    this.#delay.enable();
    void this.#beat();
    this.#timer = setInterval(() => void this.#beat(), PULSE_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#delay.disable();
  }

  /** Takes the pulse away with the worker, instead of by its TTL. */
  async close(): Promise<void> {
    this.stop();
    const { redis, link, workerId, logger } = this.#options;
    if (link.state.kind !== 'up') return;
    try {
      await redis.unlink(pulseKey(workerId), drainKey(workerId));
    } catch (error) {
      logger.debug({ error: String(error) }, 'pulse not taken away');
    }
  }

  async #beat(): Promise<void> {
    const { redis, link, workerId, onDrain, logger } = this.#options;
    if (this.#beating) return;
    this.#beating = true;
    try {
      this.#sample();
      if (link.state.kind !== 'up') return;
      const models = this.#models();
      const { requestsInHand, gpus = () => [] } = this.#options;
      const used = gpus();
      const pulse = {
        requestsInHand: requestsInHand(),
        loopDelayMs: this.#loopDelayMs(),
        models,
        ...(used.length > 0 && { gpus: used }),
      };
      const [, asked] = await Promise.all([
        redis.set(pulseKey(workerId), encodeWorkerPulse(pulse), 'PX', WORKER_TTL_MS),
        redis.get(drainKey(workerId)),
        this.#tellSpeeds(models),
      ]);
      if (asked === null || this.#asked || !(await this.#isOurs(asked))) return;
      this.#asked = true;
      onDrain();
    } catch (error) {
      logger.debug({ error: String(error) }, 'pulse not told');
    } finally {
      this.#beating = false;
    }
  }

  /** Whether somebody who may has asked this worker to leave. What somebody else wrote is removed. */
  async #isOurs(asked: string): Promise<boolean> {
    const { redis, workerId, keys, logger } = this.#options;
    try {
      openText(keys, 'drain', workerId, asked);
      return true;
    } catch (error) {
      logger.warn({ error: String(error) }, 'asked to leave by a stranger, refused');
      await redis.unlink(drainKey(workerId));
      return false;
    }
  }

  #sample(): void {
    const loop = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(loop, this.#loop);
    this.#loop = loop;
    this.#meter.sample(performance.now(), utilization);
  }

  #models(): Map<string, ModelPulse> {
    const { activity, link } = this.#options;
    const nowMs = performance.now();
    const models = new Map<string, ModelPulse>();
    for (const [model, { rows, lastJobMs }] of activity()) {
      const { rowsPerSecond, load } = this.#meter.of(model);
      const atWork = lastJobMs !== undefined && nowMs - lastJobMs < AT_WORK_MS;
      models.set(model, {
        rowsInHand: rows,
        rowsPerSecond: rowsPerSecond === undefined ? undefined : Number(rowsPerSecond.toPrecision(4)),
        load: atWork ? Math.round(load * 1000) / 1000 : 0,
        lastJobMs: lastJobMs === undefined ? undefined : Math.round(link.toRedis(lastJobMs)),
      });
    }
    return models;
  }

  /** They outlive the worker, so that a pool without any knows how many it needs. */
  async #tellSpeeds(models: ReadonlyMap<string, ModelPulse>): Promise<void> {
    const { redis } = this.#options;
    const fresh: Record<string, string> = {};
    if (performance.now() - this.#toldAllMs > TELL_AGAIN_MS) {
      this.#told.clear();
      this.#toldAllMs = performance.now();
    }
    for (const [model, { rowsPerSecond, lastJobMs }] of models) {
      const text = rowsPerSecond === undefined ? '' : rowsPerSecond.toPrecision(2);
      // While nothing runs, what others have measured since may stand.
      if (text === '' || lastJobMs === undefined || this.#told.get(model) === text) continue;
      this.#told.set(model, text);
      fresh[encodeModelName(model)] = text;
    }
    if (Object.keys(fresh).length === 0) return;
    await redis.pipeline().hset(SPEEDS_KEY, fresh).pexpire(SPEEDS_KEY, SPEEDS_TTL_MS).exec();
  }

  /** At worst since the last call. */
  #loopDelayMs(): number {
    const ms = Math.max(0, this.#delay.max / NS_PER_MS - 20);
    this.#delay.reset();
    return Number.isFinite(ms) ? Math.round(ms) : 0;
  }
}
