import { InferError, isErrorCode } from '../errors.ts';
import { encodeModelName, isSha256, isWireId } from './names.ts';
import { isCount, isRecord } from './record.ts';

/** A file that a load brings along; its bytes lie under controlFileKey. */
export interface ControlFile {
  readonly path: string;
  readonly sha256: string;
  readonly byteLength: number;
}

/** What the pool was last asked to do with a model. It stays, so that a worker that joins later does the same. */
export type ControlEntry =
  | {
      readonly id: string;
      readonly action: 'load';
      /** JSON that takes the place of config.pbtxt. */
      readonly config: string | undefined;
      readonly files: readonly ControlFile[];
      readonly turn?: string | undefined;
    }
  | {
      readonly id: string;
      readonly action: 'unload';
      readonly dependents: boolean;
      /** Another one each time that it is written down, so that a signed one cannot be put back later; as of a load. */
      readonly turn?: string | undefined;
    }
  /** A request has come for it; workers that load on demand do. Does not stay. */
  | { readonly id: string; readonly action: 'wake' };

/** What became of it on one worker; `error` undefined when it was done. */
export interface ControlResult {
  readonly error: InferError | undefined;
}

const CONTROL_VERSION = 1;
/** Files that one load may bring along. */
export const MAX_CONTROL_FILES = 10_000;

/** How long results are kept, and files from when they were renewed last, in ms. */
export const CONTROL_RESULT_TTL_MS = 600_000;
export const CONTROL_FILE_TTL_MS = 7 * 24 * 3_600_000;

/** The field of an entry in the hash. What requests wake up has one of its own: it must not hide what was asked for. */
export function controlField(model: string, { action }: Pick<ControlEntry, 'action'>): string {
  return action === 'wake' ? `${encodeModelName(model)}!` : encodeModelName(model);
}

export function encodeControlEntry(entry: ControlEntry): string {
  return JSON.stringify({ v: CONTROL_VERSION, ...entry });
}

/** @throws InferError INVALID_ARGUMENT for anything that `encodeControlEntry` does not write. */
export function decodeControlEntry(text: string): ControlEntry {
  const wire = parseJson(text);
  if (!isRecord(wire) || wire.v !== CONTROL_VERSION || !isWireId(wire.id)) {
    throw invalid(`it is none of version ${CONTROL_VERSION}`);
  }
  const { id, action, config, files, dependents } = wire;
  const turn = isWireId(wire.turn) ? wire.turn : undefined;
  if (action === 'unload' && typeof dependents === 'boolean') return { id, action, dependents, turn };
  if (action === 'wake') return { id, action };
  if (action !== 'load') throw invalid('its action is unknown');
  if (config !== undefined && typeof config !== 'string') throw invalid('its config is no text');
  if (!Array.isArray(files) || files.length > MAX_CONTROL_FILES || !files.every(isFile))
    throw invalid('its files are no files');
  return { id, action, config, files, turn };
}

export function encodeControlResult({ error }: ControlResult): string {
  return JSON.stringify(error ? { code: error.code, message: error.message } : {});
}

/** @throws InferError INVALID_ARGUMENT for anything that `encodeControlResult` does not write. */
export function decodeControlResult(text: string): ControlResult {
  const wire = parseJson(text);
  if (!isRecord(wire)) throw invalid('a result is no object');
  const { code, message } = wire;
  if (code === undefined) return { error: undefined };
  if (!isErrorCode(code) || typeof message !== 'string') throw invalid('a result has no known code or no message');
  return { error: new InferError(code, message) };
}

function isFile(wire: unknown): wire is ControlFile {
  return isRecord(wire) && typeof wire.path === 'string' && isSha256(wire.sha256) && isCount(wire.byteLength);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new InferError('INVALID_ARGUMENT', 'broken control entry: it is not JSON', { cause });
  }
}

function invalid(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `broken control entry: ${what}`);
}
