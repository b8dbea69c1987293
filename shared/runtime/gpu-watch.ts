import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { GPU_QUERY, type GpuReading, parseReading } from './gpu-readings.ts';
import type { Logger } from './logger.ts';

const EVERY_MS = 1000;

/** A reading that is older says nothing about now: the tool hangs, or the GPU has left. */
const STALE_MS = 10_000;

/** After the tool ended by itself, as it does when the driver is replaced. */
const RESTART_MS = 30_000;

const MAX_GPUS = 64;

/**
 * The GPUs of this machine, from one nvidia-smi that runs as long as this: starting one for each scrape takes seconds on
 * some machines. Without the tool there are no readings, and the log says so once.
 */
export class GpuWatch {
  readonly #logger: Logger;
  readonly #command: string;
  readonly #latest = new Map<string, { readonly reading: GpuReading; readonly atMs: number }>();
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #told = false;
  #closed = false;

  constructor(logger: Logger, command = 'nvidia-smi') {
    this.#logger = logger;
    this.#command = command;
  }

  start(): void {
    const child = spawn(
      this.#command,
      [`--query-gpu=${GPU_QUERY}`, '--format=csv,noheader,nounits', `--loop-ms=${EVERY_MS}`],
      {
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
    this.#child = child;
    child.unref();
    createInterface({ input: child.stdout }).on('line', (line) => this.#note(line));
    child.once('error', (error) => this.#ended(error.message));
    child.once('close', (code, signal) => this.#ended(`it ended with ${signal ?? code ?? 'nothing'}`));
  }

  /** The newest reading of each GPU. */
  readings(): GpuReading[] {
    const since = performance.now() - STALE_MS;
    return [...this.#latest.values()].filter(({ atMs }) => atMs >= since).map(({ reading }) => reading);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#restart);
    this.#child?.kill('SIGKILL');
  }

  #note(line: string): void {
    const reading = parseReading(line);
    if (!reading) return;
    if (!this.#latest.has(reading.uuid) && this.#latest.size >= MAX_GPUS) return;
    this.#latest.set(reading.uuid, { reading, atMs: performance.now() });
  }

  /** Called twice for a tool that cannot be started. */
  #ended(reason: string): void {
    if (this.#closed || this.#restart) return;
    if (!this.#told) this.#logger.warn({ reason }, 'no metrics of GPUs, as nvidia-smi does not run');
    this.#told = true;
    this.#restart = setTimeout(() => {
      this.#restart = undefined;
      this.start();
    }, RESTART_MS);
    this.#restart.unref();
  }
}
