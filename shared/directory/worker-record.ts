import { InferError } from '../errors.ts';
import { readBatchingReport } from '../infer/batching-report.ts';
import type { ModelState } from '../infer/ports.ts';
import { isSha256, isWireId } from '../wire/names.ts';
import { isCount, isRecord } from '../wire/record.ts';

/** A model version as one worker announces it. */
export interface AnnouncedModel extends ModelState {
  /** Hash of its description; set when the model is READY. */
  readonly description?: string;
}

/** What a worker runs models on. */
export interface WorkerDevice {
  readonly kind: 'cpu' | 'gpu';
  /** As the system calls it. */
  readonly name: string;
  /** Cores of a CPU that the process may use; 1 for a GPU. */
  readonly count: number;
}

/** The heartbeat of one worker. Holds no time, so that an unchanged worker writes the same text each time. */
export interface WorkerRecord {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  /** When it joined, on Redis' clock in ms; absent in records of older workers. */
  readonly startedMs?: number;
  readonly devices?: readonly WorkerDevice[];
  /** It finishes what it has and takes nothing new. */
  readonly draining: boolean;
  /** It loads and unloads models when the pool is asked to. */
  readonly controlled: boolean;
  readonly models: readonly AnnouncedModel[];
}

/** How long a worker counts as alive after its last heartbeat, in ms. */
export const WORKER_TTL_MS = 10_000;
export const HEARTBEAT_MS = 3000;

const RECORD_VERSION = 1;
const MAX_DEVICES = 64;
const STATES: readonly ModelState['state'][] = ['READY', 'UNAVAILABLE', 'LOADING', 'UNLOADING', 'UNKNOWN'];

export function encodeWorkerRecord(record: WorkerRecord): string {
  return JSON.stringify({ v: RECORD_VERSION, ...record });
}

/** @throws InferError INVALID_ARGUMENT for anything that `encodeWorkerRecord` does not write. */
export function decodeWorkerRecord(text: string): WorkerRecord {
  const wire = parseJson(text);
  if (!isRecord(wire) || wire.v !== RECORD_VERSION || !isWireId(wire.id) || !Array.isArray(wire.models)) {
    throw invalid(`it is none of version ${RECORD_VERSION}`);
  }
  const { id, host, pid, draining, controlled = false, models } = wire;
  if (typeof host !== 'string' || !isCount(pid) || typeof draining !== 'boolean') {
    throw invalid('a field is missing');
  }
  const devices = readDevices(wire.devices);
  return {
    id,
    host,
    pid,
    draining,
    controlled: controlled === true,
    models: models.map(decodeModel),
    ...(isCount(wire.startedMs) && { startedMs: wire.startedMs }),
    ...(devices && { devices }),
  };
}

function readDevices(wire: unknown): WorkerDevice[] | undefined {
  if (!Array.isArray(wire)) return undefined;
  return (wire as unknown[]).slice(0, MAX_DEVICES).flatMap((device) => {
    if (!isRecord(device) || typeof device.name !== 'string' || !isCount(device.count)) return [];
    const { kind, name, count } = device;
    return kind === 'cpu' || kind === 'gpu' ? [{ kind, name, count }] : [];
  });
}

function decodeModel(wire: unknown): AnnouncedModel {
  if (!isRecord(wire) || typeof wire.name !== 'string' || typeof wire.reason !== 'string') {
    throw invalid('a model has no name');
  }
  const { name, reason, version, description, wakeable, loadSeconds, freePlaces } = wire;
  const batching = readBatchingReport(wire.batching);
  const state = STATES.find((known) => known === wire.state);
  if (!state) throw invalid('a model has no known state');
  return {
    name,
    state,
    reason,
    ...(typeof version === 'string' && { version }),
    ...(isSha256(description) && { description }),
    ...(wakeable === true && { wakeable }),
    ...(typeof loadSeconds === 'number' && { loadSeconds }),
    ...(batching && { batching }),
    ...(isCount(freePlaces) && { freePlaces }),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'broken worker record: it is not JSON', { cause });
  }
}

function invalid(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `broken worker record: ${what}`);
}
