import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { PULSE_MS, type ModelPulse, type WorkerPulse } from '../shared/directory/worker-pulse.ts';
import type { WorkerRecord } from '../shared/directory/worker-record.ts';
import { InferError } from '../shared/errors.ts';
import { type ModelView, type Pool, type PoolView, viewSpeed, viewWorker } from '../producer/pool/pool-view.ts';
import type { GpuReading } from '../shared/runtime/gpu-readings.ts';
import { listDevices } from '../worker/consumer/devices.ts';
import { gpusInUse } from '../worker/consumer/gpus-in-use.ts';
import { meteredEngineOf } from '../worker/consumer/metered-engine.ts';
import { SpeedMeter } from '../worker/consumer/speed-meter.ts';
import type { Engine } from '../worker/engine/engine.ts';

const ID = 'serve';
/** What is on its way to an answer here needs no worker but this one. */
const LATENCY_GOAL_MS = 1000;

/** The pool of `serve`: the one process, which is its only worker and cannot be sent away. */
export class LocalPool implements Pool {
  readonly #engine: Engine;
  readonly #meter: SpeedMeter;
  readonly #startedMs = Date.now();
  readonly #devices = listDevices();
  #loop = performance.eventLoopUtilization();
  readonly #timer: NodeJS.Timeout;
  readonly #readings: () => readonly GpuReading[];

  /** @param readings what is known of the GPUs of this machine */
  constructor(engine: Engine, readings: () => readonly GpuReading[] = () => []) {
    this.#engine = engine;
    this.#readings = readings;
    this.#meter = new SpeedMeter(meteredEngineOf(engine));
    this.#timer = setInterval(() => this.#sample(), PULSE_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  view(): PoolView {
    const models = this.#models();
    const record: WorkerRecord = {
      id: ID,
      host: hostname(),
      pid: process.pid,
      startedMs: this.#startedMs,
      devices: this.#devices,
      draining: !this.#engine.ready().ok,
      controlled: this.#engine.controlled,
      models: this.#engine.catalog.list(),
    };
    const requestsInHand = models.reduce((sum, { running_rows: rows }) => sum + rows, 0);
    const gpus = gpusInUse(this.#engine.catalog, this.#readings());
    const pulse: WorkerPulse = { requestsInHand, loopDelayMs: 0, models: this.#pulses(), gpus };
    return {
      desired_workers: 1,
      latency_goal_ms: LATENCY_GOAL_MS,
      max_desired_workers: 1,
      workers: [{ ...viewWorker(record, pulse), loop_delay_ms: null }],
      models,
    };
  }

  drain(name: string): Promise<never> {
    const text = 'this process is its own pool and cannot be drained; SIGTERM ends it when its requests are answered';
    const known = name === ID || name === hostname() || name === `${hostname()}:${process.pid}`;
    return Promise.reject(
      known
        ? new InferError('INVALID_ARGUMENT', text)
        : new InferError('NOT_FOUND', `no worker of the pool is called '${name}'`),
    );
  }

  #sample(): void {
    const loop = performance.eventLoopUtilization();
    this.#meter.sample(performance.now(), performance.eventLoopUtilization(loop, this.#loop).utilization);
    this.#loop = loop;
  }

  #models(): ModelView[] {
    const names = [...new Set(this.#engine.catalog.list().map(({ name }) => name))];
    return names.map((name) => ({
      name,
      workers: this.#serves(name) ? 1 : 0,
      waiting_jobs: 0,
      waiting_rows: 0,
      running_rows: this.#pending(name),
      ...viewSpeed(this.#meter.of(name).rowsPerSecond),
      desired_workers: 1,
    }));
  }

  #pulses(): Map<string, ModelPulse> {
    const pulses = new Map<string, ModelPulse>();
    for (const { name } of this.#engine.catalog.list()) {
      const { rowsPerSecond, load } = this.#meter.of(name);
      pulses.set(name, { rowsInHand: this.#pending(name), rowsPerSecond, load, lastJobMs: undefined });
    }
    return pulses;
  }

  #serves(model: string): boolean {
    return this.#engine.catalog.list().some(({ name, state }) => name === model && state === 'READY');
  }

  /** Requests that wait for their run. */
  #pending(model: string): number {
    const versions = this.#engine.catalog.list().filter(({ name }) => name === model);
    return versions.reduce((sum, { version = '' }) => sum + this.#engine.pending(model, version), 0);
  }
}
