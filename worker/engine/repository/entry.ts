import { InferError } from '../../../shared/errors.ts';
import type { ModelLifecycle } from '../model-lifecycle.ts';
import { type Fingerprint, sameFingerprint } from './fingerprint.ts';
import type { LoadedSource } from './plan-load.ts';
import { RetryDelay } from './retry-delay.ts';
import type { ModelFolder } from './scan-repositories.ts';
import { WorkLine } from './work-line.ts';

/** How many loads and unloads of one model may wait for each other. */
const MAX_WAITING = 256;

/** A model of the repository, loaded or not. */
export interface Entry {
  readonly name: string;
  readonly lifecycle: ModelLifecycle;
  /** One load or unload at a time. */
  readonly line: WorkLine;
  /** Undefined when no repository has it (any more). */
  folder: ModelFolder | undefined;
  /** It is to serve. */
  wanted: boolean;
  /** Somebody asked for it by name, not only an ensemble or a request that needs it. */
  byName: boolean;
  /** Nobody unloaded it on purpose, so a request may wake it. */
  wakeable: boolean;
  /** When a request came for it last, on the clock of `performance.now()`. */
  usedMs: number;
  /** What serves. */
  loaded: LoadedSource | undefined;
  /** What serves was loaded with an override. */
  overridden: boolean;
  /** The models that what serves is made of. */
  members: readonly string[];
  /** Those that the config of the last load named, whatever became of it. */
  namedMembers: readonly string[];
  /** A load on behalf of requests that wait for it. */
  waking: Promise<void> | undefined;
  /** Bytes of model files that a load under way has been granted. */
  reservedBytes: number;
  /** Bytes of what was unloaded last, which count while it drains. */
  leavingBytes: number;
  /** Of the last load, whatever became of it. */
  attempted: Fingerprint | undefined;
  /** Of the last look. */
  seen: Fingerprint | undefined;
  /** Of what could not be loaded last. */
  failed: Fingerprint | undefined;
  /** How long requests do not have it loaded again. */
  readonly delay: RetryDelay;
}

export function createEntry(name: string, lifecycle: ModelLifecycle): Entry {
  return {
    name,
    lifecycle,
    line: new WorkLine(1, MAX_WAITING),
    folder: undefined,
    wanted: false,
    byName: false,
    wakeable: true,
    usedMs: 0,
    loaded: undefined,
    overridden: false,
    members: [],
    namedMembers: [],
    waking: undefined,
    reservedBytes: 0,
    leavingBytes: 0,
    attempted: undefined,
    seen: undefined,
    failed: undefined,
    delay: new RetryDelay(),
  };
}

/** The models that an ensemble needs: of what serves, or else of what is to serve. */
export function membersOf({ lifecycle, members, namedMembers }: Entry): readonly string[] {
  return lifecycle.serves ? members : namedMembers;
}

/** Where its files are. @throws InferError NOT_FOUND or UNAVAILABLE when they are nowhere, or in two places. */
export function pathOf({ name, folder }: Entry): string {
  if (!folder) throw new InferError('NOT_FOUND', `model "${name}": no model repository has a folder of that name`);
  if (folder.conflict !== '') throw new InferError('UNAVAILABLE', folder.conflict);
  return folder.path;
}

/** Whether what serves came from the folder as it is now. */
export function servesAlready({ lifecycle, loaded, overridden }: Entry, fingerprint: Fingerprint | undefined): boolean {
  if (!lifecycle.serves || overridden || fingerprint === undefined) return false;
  return sameFingerprint(loaded?.fingerprint, fingerprint);
}

/** Whether an ensemble that serves, is being loaded or was asked for by name has the model as a step. */
export function isNeeded(name: string, entries: Iterable<Entry>): boolean {
  for (const entry of entries) {
    const { wanted, byName, lifecycle, line, namedMembers } = entry;
    if (!wanted || !(byName || lifecycle.serves || line.busy)) continue;
    if (membersOf(entry).includes(name) || (line.busy && namedMembers.includes(name))) return true;
  }
  return false;
}
