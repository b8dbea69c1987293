import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import koffi from 'koffi';
import { applyKoffiSettings } from '../worker/engine/backend/onnx/c-api/koffi-settings.ts';
import type { GpuFolder } from '../worker/engine/backend/onnx/gpu/gpu-folder.ts';

/** fcntl's command for the close-on-exec flag, on Linux and macOS alike. */
const F_SETFD = 2;

/** Set on the process that was started with the right environment, so that it does not start itself again. */
const MARK = 'MILLRACE_LAUNCHED';

const LIBRARY_PATH = 'LD_LIBRARY_PATH';

/**
 * Threads of libuv's pool: model runs, image decoding, file and name look-ups share it. libuv reads the number once,
 * before any of our code runs, so it has to be in the environment when the process starts.
 */
export function threadPoolSize(): number {
  return Math.max(16, 2 * availableParallelism() + 8);
}

/** Threads of the pool that model runs leave to decoding, files and names. */
export const RESERVED_THREADS = 6;

/**
 * What has to be in the environment before a process starts. glibc gives every thread of the pool a heap of its own unless
 * told otherwise, and photos then leave holes in all of them: 585 MB against 424 after 1,200 mixed requests, for 1 % more
 * CPU. What the person has set stays.
 */
function missingVariables(gpu: GpuFolder | undefined): Record<string, string> {
  const wanted = {
    UV_THREADPOOL_SIZE: String(threadPoolSize()),
    MALLOC_ARENA_MAX: '2',
    // CUDA would number the GPUs by their speed, nvidia-smi numbers them by their place.
    ...(gpu && { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' }),
  };
  const missing = Object.entries(wanted).filter(([name]) => process.env[name] === undefined);
  return { ...Object.fromEntries(missing), ...(gpu && { [LIBRARY_PATH]: libraryPath(gpu) }) };
}

/** In front of what the person has set: the provider and its libraries have to be of one build. */
function libraryPath({ libraryFolders }: GpuFolder): string {
  const set = process.env[LIBRARY_PATH];
  return [...libraryFolders, ...(set === undefined || set === '' ? [] : [set])].join(':');
}

/**
 * Lets the heap of JavaScript grow to four times of what lives in it before it is searched for garbage as a whole. V8
 * counts large buffers as part of it and by itself keeps the limit so close to the heap that requests of 600 KB have it
 * search once in twenty of them, which then is most of the work. Four times is the most that it allows itself as well.
 */
function letHeapGrow(): void {
  if (process.execArgv.some((argument) => /^--heap[-_]growing[-_]percent/.test(argument))) return;
  setFlagsFromString('--heap-growing-percent=300');
}

/**
 * Replaces this process by itself with the environment that a server needs; same process id, same standard streams.
 * Returns when there is nothing to change; where the platform cannot replace a process, it says so and goes on without.
 * Also sets what V8 is to do in it.
 * @param gpu GPU support, where it is installed: the loader reads its search path once, as the process starts
 */
export function relaunchWithEnvironment(gpu?: GpuFolder): void {
  letHeapGrow();
  const missing = missingVariables(gpu);
  if (process.env[MARK] !== undefined || Object.keys(missing).length === 0) return;
  const args = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  try {
    execve(process.execPath, args, launchedEnvironment(gpu));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const names = Object.keys(missing).join(' and ');
    process.stderr.write(`millrace: ${names} could not be set (${reason}); fewer runs go on at once\n`);
  }
}

/** The environment of a server, for a process that need not replace itself then. @param gpu as above */
export function launchedEnvironment(gpu?: GpuFolder): NodeJS.ProcessEnv {
  return { ...process.env, ...missingVariables(gpu), [MARK]: '1' };
}

/** execve(2) by way of the C library: Node has it from 22.15 on only. Does not return when it works. */
function execve(path: string, args: readonly string[], environment: NodeJS.ProcessEnv): void {
  if (process.platform === 'win32') throw new Error('Windows has no execve');
  applyKoffiSettings(); // koffi takes them before its first library only
  const libc = koffi.load(null);
  const call = libc.func('int execve(const char *path, const char **argv, const char **envp)');
  const fcntl = libc.func('int fcntl(int fd, int cmd, ...)');
  // Node marks the standard streams to be closed on exec; without this the new process could not print.
  for (const descriptor of [0, 1, 2]) fcntl(descriptor, F_SETFD, 'int', 0);
  const pairs = Object.entries(environment).map(([name, value]) => `${name}=${value ?? ''}`);
  call(path, [...args, null], [...pairs, null]);
}
