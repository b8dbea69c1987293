import type { AnnouncedModel, WorkerDevice, WorkerRecord } from '../../shared/directory/worker-record.ts';
import type { GpuPulse, WorkerPulse } from '../../shared/directory/worker-pulse.ts';

/** A model version at one worker. */
export interface WorkerModelView {
  readonly name: string;
  readonly version: string;
  readonly state: string;
  /** Why it is not READY. */
  readonly reason: string;
  /** Of the model, all its versions together; null until the worker has run some. */
  readonly rows_per_second: number | null;
  readonly ms_per_row: number | null;
  readonly rows_in_hand: number;
}

/** A GPU that models of a worker run on; null for what nothing tells. */
export interface GpuView extends WorkerDevice {
  readonly kind: 'gpu';
  readonly index: number;
  readonly uuid: string | null;
  /** Of the device, whoever uses it. */
  readonly memory_total_bytes: number | null;
  readonly memory_used_bytes: number | null;
  readonly utilization: number | null;
}

export interface WorkerView {
  readonly id: string;
  /** Host and process. */
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  readonly state: 'ready' | 'not_ready' | 'draining';
  /** Why it is not ready. */
  readonly reason: string;
  readonly started: string | null;
  readonly devices: readonly (WorkerDevice | GpuView)[];
  readonly requests_in_hand: number;
  /** Part of its time that it works, from 0 to 1. */
  readonly load: number;
  /** How late its event loop was at worst in the last second; null where it has not told. */
  readonly loop_delay_ms: number | null;
  readonly last_job: string | null;
  readonly models: readonly WorkerModelView[];
}

export interface ModelView {
  readonly name: string;
  /** Those that have it ready and take work. */
  readonly workers: number;
  readonly waiting_jobs: number;
  readonly waiting_rows: number;
  readonly running_rows: number;
  /** Of one worker, as measured last; null where it never was. */
  readonly rows_per_second: number | null;
  readonly ms_per_row: number | null;
  readonly desired_workers: number;
}

/** What `GET /pool` answers. */
export interface PoolView {
  readonly desired_workers: number;
  readonly latency_goal_ms: number;
  readonly max_desired_workers: number;
  readonly workers: readonly WorkerView[];
  readonly models: readonly ModelView[];
}

/** What the pool's facade needs. */
export interface Pool {
  /** @throws InferError UNAVAILABLE while nothing is known */
  view(): PoolView;
  /**
   * Asks a worker to take nothing new, finish what it has, and leave.
   * @param name its id, `host:pid`, or its host where only one worker is on it
   * @throws InferError NOT_FOUND, or INVALID_ARGUMENT where the name fits several
   */
  drain(name: string): Promise<{ readonly id: string; readonly name: string }>;
}

export function workerName({ host, pid }: Pick<WorkerRecord, 'host' | 'pid'>): string {
  return `${host}:${pid}`;
}

/** @param pulse undefined where the worker has not told anything yet */
export function viewWorker(record: WorkerRecord, pulse: WorkerPulse | undefined): WorkerView {
  const { id, host, pid, startedMs, devices = [], models, draining } = record;
  const broken = models.find(({ state }) => state !== 'READY');
  const isReady = models.some(({ state }) => state === 'READY');
  const pulses = [...(pulse?.models.values() ?? [])];
  const lastMs = Math.max(...pulses.map(({ lastJobMs = -Infinity }) => lastJobMs), -Infinity);
  return {
    id,
    name: workerName(record),
    host,
    pid,
    state: draining ? 'draining' : isReady ? 'ready' : 'not_ready',
    reason: draining || isReady ? '' : notReadyReason(broken),
    started: startedMs === undefined ? null : isoTime(startedMs),
    devices: [...devices, ...(pulse?.gpus ?? []).map(viewGpu)],
    requests_in_hand: pulse?.requestsInHand ?? 0,
    load: Math.min(1, rounded(pulses.reduce((sum, { load }) => sum + load, 0))),
    loop_delay_ms: pulse?.loopDelayMs ?? null,
    last_job: lastMs === -Infinity ? null : isoTime(lastMs),
    models: models.map((model) => viewModelOf(model, pulse)),
  };
}

function viewGpu({ index, name, uuid, totalBytes, usedBytes, utilization }: GpuPulse): GpuView {
  return {
    kind: 'gpu',
    name,
    count: 1,
    index,
    uuid: uuid ?? null,
    memory_total_bytes: totalBytes ?? null,
    memory_used_bytes: usedBytes ?? null,
    utilization: utilization ?? null,
  };
}

function viewModelOf({ name, version = '', state, reason }: AnnouncedModel, pulse: WorkerPulse | undefined) {
  const { rowsPerSecond, rowsInHand = 0 } = pulse?.models.get(name) ?? {};
  return { name, version, state, reason, ...viewSpeed(rowsPerSecond), rows_in_hand: rowsInHand };
}

export function viewSpeed(rowsPerSecond: number | undefined): {
  readonly rows_per_second: number | null;
  readonly ms_per_row: number | null;
} {
  if (rowsPerSecond === undefined) return { rows_per_second: null, ms_per_row: null };
  return { rows_per_second: rounded(rowsPerSecond), ms_per_row: rounded(1000 / rowsPerSecond) };
}

function notReadyReason(broken: AnnouncedModel | undefined): string {
  if (!broken) return 'it has no model loaded';
  return `${broken.name} is ${broken.state}${broken.reason === '' ? '' : `: ${broken.reason}`}`;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

function rounded(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
