import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { COMMAND_FLAGS, FLAGS, type CommandName, type FlagKey } from '../../cli/flags/catalogue.ts';

/** The repository's root. */
export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const MAIN = join(ROOT, 'dist', 'cli', 'main.js');

/** Starting loads models and may share two cores with everything else. */
const READY_TIMEOUT_MS = 90_000;
const STOP_TIMEOUT_MS = 60_000;

export interface ProcessOptions {
  /** On top of this process's environment, which is cleared of Millrace's own variables first. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the repository's root. */
  readonly cwd?: string;
  /** The program and what stands before the arguments. Default: Node on the built command line. */
  readonly command?: readonly string[];
  /** The user that it runs as; only root may choose another. */
  readonly uid?: number;
  /** Where more than the models has to be made ready. */
  readonly readyTimeoutMs?: number;
}

export interface Ended {
  /** null when a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface MillraceProcess {
  /** Where HTTP is served, without a slash at the end; '' for a worker. */
  readonly url: string;
  /** host:port where gRPC is served; '' where it is not. */
  readonly grpcAddress: string;
  /** The page of metrics; '' where they are switched off. */
  readonly metricsUrl: string;
  readonly pid: number;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** The exit code; null when a signal ended it. */
  readonly exited: Promise<number | null>;
  readonly kill: (signal: NodeJS.Signals) => void;
  /** What a terminal does on Ctrl-C: the process gets the signal, and so does everything that it started. */
  readonly killAll: (signal: NodeJS.Signals) => void;
  /** Sends the signal and waits for the end. Ends it by force when it does not end, and says so. */
  readonly stop: (signal?: NodeJS.Signals) => Promise<number | null>;
}

const running = new Set<ChildProcess>();

process.once('exit', killLeftovers);
afterAll(killLeftovers);

/**
 * Starts `millrace <args>` and waits until it says that it is ready. Ports that the arguments do not name are free
 * ones. What is still running after the last test of the file is killed.
 * @throws with everything that it printed when it ends before, or is not ready in time.
 */
export async function startMillrace(args: readonly string[], options: ProcessOptions = {}): Promise<MillraceProcess> {
  const run = launch([...args, ...freePorts(args, options)], options);
  await new Promise<void>((resolve, reject) => {
    const fail = (what: string) => {
      clearTimeout(timer);
      killGroup(run.child);
      reject(new Error(`millrace ${args.join(' ')} ${what}\n${run.stdout()}${run.stderr()}`));
    };
    const { readyTimeoutMs = READY_TIMEOUT_MS } = options;
    const timer = setTimeout(() => fail(`was not ready within ${readyTimeoutMs} ms`), readyTimeoutMs);
    // The last of the start-up lines is an empty one, so that all of them are there.
    run.onOutput(() => {
      if (!/ is ready\n[^]*\n\n$/.test(run.stdout())) return;
      clearTimeout(timer);
      resolve();
    });
    void run.ended.then(({ code, signal }) => fail(`ended before it was ready (${code ?? signal})`));
  });
  return {
    url: /^ +HTTP +(\S+)/m.exec(run.stdout())?.[1] ?? '',
    grpcAddress: /^ +gRPC +(?:\w+:\/\/)?([^\s/]+)/m.exec(run.stdout())?.[1] ?? '',
    metricsUrl: /^ +metrics +(\S+)/m.exec(run.stdout())?.[1] ?? '',
    pid: run.child.pid!,
    stdout: run.stdout,
    stderr: run.stderr,
    exited: run.ended.then(({ code }) => code),
    kill: (signal) => run.child.kill(signal),
    killAll: (signal) => process.kill(-run.child.pid!, signal),
    stop: async (signal = 'SIGTERM') => {
      run.child.kill(signal);
      return (await endWithin(run, STOP_TIMEOUT_MS)).code;
    },
  };
}

/** Runs `millrace <args>` to its end. */
export function runMillrace(args: readonly string[], options: ProcessOptions = {}): Promise<Ended> {
  return endWithin(launch(args, options), READY_TIMEOUT_MS);
}

interface Launched {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly onOutput: (listener: () => void) => void;
}

function launch(args: readonly string[], options: ProcessOptions): Launched {
  const [program, ...before] = options.command ?? [process.execPath, MAIN];
  if (options.command === undefined && !existsSync(MAIN)) throw new Error('dist is missing: run npm run build first');
  const child = spawn(program!, [...before, ...args], {
    cwd: options.cwd ?? ROOT,
    env: { ...plainEnvironment(), ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, so that nothing that it started outlives it here.
    detached: true,
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
  });
  running.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      running.delete(child);
      resolve({ code, signal, stdout, stderr });
    });
  });
  return {
    child,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    onOutput: (listener) => child.stdout.on('data', listener),
  };
}

/** Millrace's own variables would change what is tested; the thread pool's size would skip a step of the start. */
function plainEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(?:MILLRACE_|REDIS_URL$|UV_THREADPOOL_SIZE$|NODE_OPTIONS$|NODE_ENV$|VITEST)/.test(name),
    ),
  );
}

function freePorts(args: readonly string[], { env = {} }: ProcessOptions): string[] {
  const command = Object.keys(COMMAND_FLAGS).find((name) => args.includes(name)) as CommandName | undefined;
  const keys: readonly FlagKey[] = COMMAND_FLAGS[command ?? 'serve'];
  return keys
    .map((key) => FLAGS[key].name)
    .filter((name) => name.endsWith('-port'))
    .filter((name) => !args.some((arg) => arg.startsWith(`--${name}`)))
    .filter((name) => env[`MILLRACE_${name.toUpperCase().replaceAll('-', '_')}`] === undefined)
    .map((name) => `--${name}=0`);
}

async function endWithin({ child, ended, stdout, stderr }: Launched, timeoutMs: number): Promise<Ended> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      killGroup(child);
      reject(new Error(`millrace did not end within ${timeoutMs} ms\n${stdout()}${stderr()}`));
    }, timeoutMs);
  });
  try {
    return await Promise.race([ended, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

function killLeftovers(): void {
  for (const child of running) killGroup(child);
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
