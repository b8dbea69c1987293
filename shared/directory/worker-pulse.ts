import { isCount, isRecord } from '../wire/record.ts';

/** What a worker is doing with one model, all its versions together. */
export interface ModelPulse {
  /** Rows that it has taken and not answered. */
  readonly rowsInHand: number;
  /** Rows a second that it gets done when it does nothing else; undefined until it has run some. */
  readonly rowsPerSecond: number | undefined;
  /** Part of its time that the model takes now, from 0 to 1. */
  readonly load: number;
  /** When it last took or answered a job for it, on Redis' clock in ms; undefined before the first. */
  readonly lastJobMs: number | undefined;
}

/** A GPU that models of the worker run on; what nothing tells is undefined. */
export interface GpuPulse {
  /** As the worker's models count, from 0. */
  readonly index: number;
  readonly uuid: string | undefined;
  /** As nvidia-smi calls it; '' where that is not there. */
  readonly name: string;
  /** Of the device, whoever uses it. */
  readonly totalBytes: number | undefined;
  readonly usedBytes: number | undefined;
  /** Part of the last second in which anything ran on it, from 0 to 1. */
  readonly utilization: number | undefined;
}

/**
 * The figures of a worker that change all the time, apart from its record: producers read that twice a second and parse it
 * only when it has changed.
 */
export interface WorkerPulse {
  readonly requestsInHand: number;
  /** How late its event loop was at worst since the pulse before, in ms. */
  readonly loopDelayMs: number;
  /** By name. */
  readonly models: ReadonlyMap<string, ModelPulse>;
  /** Absent where no model runs on one. */
  readonly gpus?: readonly GpuPulse[];
}

export const PULSE_MS = 1000;

const PULSE_VERSION = 1;
const MAX_MODELS = 10_000;
const MAX_GPUS = 64;
/** Of what a worker calls a device. */
const MAX_NAME_LENGTH = 200;

export function encodeWorkerPulse({ models, ...pulse }: WorkerPulse): string {
  return JSON.stringify({ v: PULSE_VERSION, ...pulse, models: [...models] });
}

/** Undefined for anything that `encodeWorkerPulse` does not write: then nothing is known of that worker. */
export function decodeWorkerPulse(text: string): WorkerPulse | undefined {
  const wire = parseJson(text);
  if (!isRecord(wire) || wire.v !== PULSE_VERSION || !Array.isArray(wire.models)) return undefined;
  const { requestsInHand, loopDelayMs, models } = wire;
  if (!isCount(requestsInHand) || !isAmount(loopDelayMs) || models.length > MAX_MODELS) return undefined;
  return {
    requestsInHand,
    loopDelayMs,
    models: new Map((models as unknown[]).flatMap(readModel)),
    ...(Array.isArray(wire.gpus) && { gpus: (wire.gpus as unknown[]).slice(0, MAX_GPUS).flatMap(readGpu) }),
  };
}

function readGpu(wire: unknown): GpuPulse[] {
  if (!isRecord(wire) || !isCount(wire.index) || typeof wire.name !== 'string') return [];
  const { index, name, uuid, totalBytes, usedBytes, utilization } = wire;
  const gpu = {
    index,
    name: name.slice(0, MAX_NAME_LENGTH),
    uuid: typeof uuid === 'string' ? uuid.slice(0, MAX_NAME_LENGTH) : undefined,
    totalBytes: isAmount(totalBytes) ? totalBytes : undefined,
    usedBytes: isAmount(usedBytes) ? usedBytes : undefined,
    utilization: isAmount(utilization) ? Math.min(1, utilization) : undefined,
  };
  return [gpu];
}

function readModel(wire: unknown): [string, ModelPulse][] {
  if (!Array.isArray(wire) || typeof wire[0] !== 'string' || !isRecord(wire[1])) return [];
  const { rowsInHand, rowsPerSecond, load, lastJobMs } = wire[1];
  if (!isCount(rowsInHand) || !isAmount(load)) return [];
  const speed = isAmount(rowsPerSecond) && rowsPerSecond > 0 ? rowsPerSecond : undefined;
  const last = isAmount(lastJobMs) ? lastJobMs : undefined;
  return [[wire[0], { rowsInHand, rowsPerSecond: speed, load: Math.min(1, load), lastJobMs: last }]];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // as anything else that is no pulse
  }
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
