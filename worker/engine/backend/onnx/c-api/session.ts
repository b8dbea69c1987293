import { basename } from 'node:path';
import koffi from 'koffi';
import type { LoadOptions } from '../../../instance/instance.ts';
import { pointerFrom, type Api } from './api.ts';
import type { OrtFunctions, Pointer, Status } from './functions.ts';
import { assertOk, OrtCallError, takeFailure } from './status.ts';

const GRAPH_LEVELS = { disabled: 0, basic: 1, extended: 2, all: 99 } as const;
const EXECUTION_MODES = { sequential: 0, parallel: 1 } as const;

/**
 * Loads a model file on a thread of the pool or, where others must not feel it, in the background.
 * @param provide adds an execution provider to the session's options; then nothing happens in the background
 * @throws OrtCallError
 */
export async function openSession(
  api: Api,
  options: LoadOptions,
  background: boolean,
  provide?: (sessionOptions: Pointer) => void,
): Promise<Pointer> {
  const { ort } = api;
  const sessionOptions = pointerFrom(ort, (out) => ort.CreateSessionOptions(out));
  try {
    applyOptions(api, sessionOptions, options);
    provide?.(sessionOptions);
    const out = new BigUint64Array(1);
    await new Promise<void>((resolve, reject) => {
      const done = (error: Error | null, status: Status | undefined): void => {
        if (error) reject(error);
        else if (status) reject(new OrtCallError(takeFailure(ort, status)));
        else resolve();
      };
      if (background && !provide && !makesThreads(api, options)) {
        const values = [api.env, options.path, sessionOptions, koffi.address(out)];
        api.background.start(api.native.CreateSession, values, done);
      } else {
        ort.CreateSession.async(api.env, options.path, sessionOptions, out, done);
      }
    });
    return out[0] ?? 0n;
  } finally {
    ort.ReleaseSessionOptions(sessionOptions);
  }
}

/**
 * Threads inherit the priority of the one that makes them, and a session keeps its own for as long as it lives. An
 * execution provider makes threads, too: CUDA those of its context.
 */
function makesThreads({ sharedThreads }: Api, options: LoadOptions): boolean {
  return !sharedThreads && (options.intraOpNumThreads !== 1 || options.executionMode === 'parallel');
}

/** Frees a session off the event loop: giving hundreds of megabytes back takes a while. */
export async function closeSession({ ort, native, background, trimSoon }: Api, session: Pointer): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const done = (error: Error | null): void => {
      if (error) reject(error);
      else resolve();
    };
    if (background.started) background.start(native.ReleaseSession, [session], done);
    else ort.ReleaseSession.async(session, done);
  });
  trimSoon(); // its weights lie among what others hold, and the C library alone would keep the gaps
}

function applyOptions({ ort, sharedThreads }: Api, sessionOptions: Pointer, options: LoadOptions): void {
  if (sharedThreads) {
    assertOk(ort, ort.DisablePerSessionThreads(sessionOptions));
  } else {
    assertOk(ort, ort.SetIntraOpNumThreads(sessionOptions, options.intraOpNumThreads));
    assertOk(ort, ort.SetInterOpNumThreads(sessionOptions, options.interOpNumThreads));
  }
  assertOk(ort, ort.SetSessionExecutionMode(sessionOptions, EXECUTION_MODES[options.executionMode]));
  assertOk(ort, ort.SetSessionGraphOptimizationLevel(sessionOptions, GRAPH_LEVELS[options.graphOptimizationLevel]));
  if (!options.enableCpuMemArena) assertOk(ort, ort.DisableCpuMemArena(sessionOptions));
  if (!options.enableMemPattern) assertOk(ort, ort.DisableMemPattern(sessionOptions));
  assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.x64quantprecision', options.exactInt8 ? '1' : '0'));
  // Threads that spin while they wait for work cost five times the CPU of a run at a paced load.
  assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.intra_op.allow_spinning', '0'));
  assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, 'session.inter_op.allow_spinning', '0'));
  for (const [key, value] of Object.entries(options.sessionEntries)) {
    assertOk(ort, ort.AddSessionConfigEntry(sessionOptions, key, value));
  }
  for (const library of options.customOpLibraries) registerOperators(ort, sessionOptions, library);
}

/** The library stays loaded as long as the session. @throws OrtCallError whose text has no path */
function registerOperators(ort: OrtFunctions, sessionOptions: Pointer, library: string): void {
  const status = ort.RegisterCustomOpsLibrary_V2(sessionOptions, library);
  if (status === null) return;
  const { code, text } = takeFailure(ort, status);
  throw new OrtCallError({ code, text: text.replaceAll(library, basename(library)) });
}
