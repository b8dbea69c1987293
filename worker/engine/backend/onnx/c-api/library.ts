import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import koffi, { type LibraryHandle } from 'koffi';
import { InferError } from '../../../../../shared/errors.ts';
import {
  API_VERSION,
  type Memory,
  type OrtFunctions,
  PLACEMENT_API_VERSION,
  PLACEMENT_SLOTS,
  type PlacementFunctions,
  type Pointer,
  type Slot,
  SLOTS,
} from './functions.ts';
import { applyKoffiSettings } from './koffi-settings.ts';

/** A function that is called by its address. */
export interface NativeFunction {
  readonly address: Pointer;
  /** koffi's names of the types. */
  readonly result: string;
  readonly args: readonly string[];
}

/** ONNX Runtime's functions, and the C library's copy from one memory to another. */
export interface Library {
  readonly ort: OrtFunctions;
  /** The same functions for other threads. */
  readonly native: Readonly<Record<keyof OrtFunctions, NativeFunction>>;
  /** Undefined where the library is too old to tell. */
  readonly placement: PlacementFunctions | undefined;
  readonly copy: (target: Memory, source: Memory, byteLength: number) => void;
  /** Gives memory that was freed back to the system within some seconds, where the C library can be asked to. */
  readonly trimSoon: () => void;
}

/**
 * Every library that was ever loaded, for as long as the process lives. This is the one piece of module state, and it is
 * needed: koffi unloads a library when its handle is garbage-collected, and the next call of one of its functions would
 * jump into memory that is no longer there.
 */
const loadedForever: LibraryHandle[] = [];

const TRIM_AFTER_MS = 1000;

/**
 * Loads the library that the onnxruntime-node package ships for this platform.
 * @param core the same library by a path with execution providers beside it, which are looked for where it was loaded from
 * @throws InferError UNAVAILABLE with the reason when there is none or it cannot be loaded.
 */
export function loadLibrary(core = libraryPath()): Library {
  try {
    applyKoffiSettings();
    const library = keep(koffi.load(core));
    return { ...functionsOf(library), copy: loadMemoryCopy(), trimSoon: loadTrim() };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InferError('UNAVAILABLE', `ONNX Runtime's library could not be loaded: ${withoutPaths(reason)}`, {
      cause: error,
    });
  }
}

function libraryPath(): string {
  const packageEntry = createRequire(import.meta.url).resolve('onnxruntime-node');
  const folder = join(dirname(packageEntry), '..', 'bin', 'napi-v6', process.platform, process.arch);
  return join(folder, LIBRARY_NAMES[process.platform] ?? 'libonnxruntime.so.1');
}

const LIBRARY_NAMES: Partial<Record<NodeJS.Platform, string>> = {
  darwin: 'libonnxruntime.1.dylib',
  win32: 'onnxruntime.dll',
};

/** OrtGetApiBase gives two functions; the first gives the table of all others. */
function functionsOf(library: LibraryHandle): Pick<Library, 'ort' | 'native' | 'placement'> {
  const getBase = library.func('OrtGetApiBase', 'void *', []);
  const [getApi] = koffi.decode(getBase(), koffi.array('void *', 2)) as Pointer[]; // two function pointers, by the header
  const tableOf = (version: number) => {
    return koffi.call(getApi, koffi.proto('void *', ['uint32_t']), version) as Pointer | null; // by the header
  };
  const table = tableOf(API_VERSION);
  if (table === null) throw new Error(`it is older than version 1.${API_VERSION}`);
  const pointers = pointersOf(table, SLOTS);
  const natives = Object.entries(SLOTS).map(([name, [slot, result, args]]) => [
    name,
    { address: pointers[slot], result, args },
  ]);
  const later = tableOf(PLACEMENT_API_VERSION);
  return {
    ort: decodeFunctions(pointers, SLOTS) as unknown as OrtFunctions, // the keys of SLOTS are the keys of OrtFunctions
    native: Object.fromEntries(natives) as Library['native'], // likewise
    placement:
      later === null
        ? undefined
        : (decodeFunctions(pointersOf(later, PLACEMENT_SLOTS), PLACEMENT_SLOTS) as unknown as PlacementFunctions), // likewise
  };
}

/** The table is an array of pointers. */
function pointersOf(table: Pointer, slots: Readonly<Record<string, Slot>>): Pointer[] {
  const length = 1 + Math.max(...Object.values(slots).map(([slot]) => slot));
  return koffi.decode(table, koffi.array('void *', length)) as Pointer[]; // an array of pointers, by the header
}

function decodeFunctions(pointers: readonly Pointer[], slots: Readonly<Record<string, Slot>>): Record<string, unknown> {
  const functions = Object.entries(slots).map(([name, [slot, result, args]]) => [
    name,
    koffi.decode(pointers[slot], koffi.proto(result, [...args])) as unknown,
  ]);
  return Object.fromEntries(functions) as Record<string, unknown>; // entries of names and functions
}

/** memcpy, which every C library exports under that name. */
function loadMemoryCopy(): Library['copy'] {
  const library = keep(koffi.load(process.platform === 'win32' ? 'ntdll.dll' : null));
  return library.func('memcpy', 'void *', ['void *', 'void *', 'size_t']) as Library['copy']; // its C signature
}

/**
 * malloc_trim is glibc's own; others give back by themselves, or cannot be asked. It takes milliseconds of a processor and
 * holds up who allocates meanwhile, so one call follows all that is freed within TRIM_AFTER_MS.
 */
function loadTrim(): Library['trimSoon'] {
  if (process.platform !== 'linux') return () => undefined;
  let trim: { async(pad: number, done: () => void): void };
  try {
    trim = keep(koffi.load(null)).func('malloc_trim', 'int', ['size_t']) as typeof trim; // its C signature
  } catch {
    return () => undefined; // musl
  }
  let planned: NodeJS.Timeout | undefined;
  return () => {
    planned ??= setTimeout(() => {
      planned = undefined;
      trim.async(0, () => undefined);
    }, TRIM_AFTER_MS).unref();
  };
}

function keep(library: LibraryHandle): LibraryHandle {
  loadedForever.push(library);
  return library;
}

/** Error texts never hold a path; dlopen's begin with one. */
function withoutPaths(text: string): string {
  return text.replace(/(?:[A-Za-z]:)?[\\/][^\s:'"]+/g, '(path)');
}
