import { InferError } from '../errors.ts';
import type { ModelState } from '../infer/ports.ts';
import { isSha256, isWireId } from '../wire/names.ts';
import { isCount, isRecord } from '../wire/record.ts';

/** A model version as one worker announces it. */
export interface AnnouncedModel extends ModelState {
  /** Hash of its description; set when the model is READY. */
  readonly description?: string;
}

/** The heartbeat of one worker. Holds no time, so that an unchanged worker writes the same text each time. */
export interface WorkerRecord {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
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
  return { id, host, pid, draining, controlled: controlled === true, models: models.map(decodeModel) };
}

function decodeModel(wire: unknown): AnnouncedModel {
  if (!isRecord(wire) || typeof wire.name !== 'string' || typeof wire.reason !== 'string') {
    throw invalid('a model has no name');
  }
  const { name, reason, version, description, wakeable, loadSeconds } = wire;
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
