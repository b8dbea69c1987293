import { type ChildProcess, spawn } from 'node:child_process';
import type { Logger } from '../shared/runtime/logger.ts';
import { GROUP_MARK } from './shutdown.ts';

/** One process of a group. */
export interface Member {
  /** What the log calls it. */
  readonly name: string;
  /** The program and its arguments. */
  readonly command: readonly [program: string, ...args: string[]];
  readonly env: NodeJS.ProcessEnv;
}

export interface GroupTimes {
  /** Before a process that failed is started again: this long, then twice as long each time. */
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
  /** A process that has lived so long has not failed in a row. */
  readonly healthyMs: number;
}

const TIMES: GroupTimes = { firstPauseMs: 1000, longestPauseMs: 60_000, healthyMs: 60_000 };

/** Failures in a row of each process, without one that lives, after which the group ends. */
const MAX_FAILURES = 3;

/** How a command ends that cannot be understood; starting it again would change nothing. */
const WRONG_COMMAND = 2;

interface Place {
  readonly member: Member;
  child: ChildProcess | undefined;
  /** When it was started, on `performance.now()`. */
  sinceMs: number;
  failures: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Processes that belong together, each started again when it fails. One that leaves by itself with 0 has done its work. The
 * group ends with its last process, or when none of them can be kept alive.
 */
export class WorkerGroup {
  readonly #places: readonly Place[];
  readonly #logger: Logger;
  readonly #times: GroupTimes;
  /** What it was told to end with. */
  #signal: NodeJS.Signals | undefined;
  #code = 0;
  #end: (code: number) => void = () => undefined;

  constructor(members: readonly Member[], logger: Logger, times = TIMES) {
    this.#places = members.map((member) => ({ member, child: undefined, sinceMs: 0, failures: 0, timer: undefined }));
    this.#logger = logger;
    this.#times = times;
  }

  /** Starts them all. Resolves when the group has ended, with its exit code: 0 when each of them ended with 0 at last. */
  run(): Promise<number> {
    const ended = new Promise<number>((resolve) => (this.#end = resolve));
    for (const place of this.#places) this.#start(place);
    return ended;
  }

  /** Sends the signal on, and starts nothing any more. */
  stop(signal: NodeJS.Signals): void {
    this.#signal = signal;
    for (const place of this.#places) {
      clearTimeout(place.timer);
      place.timer = undefined;
      place.child?.kill(signal);
    }
    this.#endIfEmpty();
  }

  #start(place: Place): void {
    const { member } = place;
    const [program, ...args] = member.command;
    place.timer = undefined;
    const child = spawn(program, args, {
      env: { ...member.env, [GROUP_MARK]: '1' },
      // The channel tells a worker that this process is gone, however it ended.
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // A terminal sends Ctrl-C to the whole group of this process; a worker that got it twice would not wait for its answers.
      detached: true,
    });
    place.child = child;
    place.sinceMs = performance.now();
    let over = false;
    const ended = (code: number | null, how: string): void => {
      if (over) return;
      over = true;
      place.child = undefined;
      if (performance.now() - place.sinceMs >= this.#times.healthyMs) place.failures = 0;
      this.#ended(place, code, how);
    };
    child.once('error', (error) => {
      if (child.pid === undefined) ended(1, error.message);
    });
    child.once('exit', (code, signal) => ended(code, String(signal ?? code)));
  }

  #ended(place: Place, code: number | null, how: string): void {
    const { name } = place.member;
    // One that has not begun to work yet ends by the signal itself.
    if (code === 0 || (this.#signal && how === this.#signal)) this.#logger.info({ name }, 'worker process left');
    else if (this.#signal) this.#fail({ name, how });
    else if (code === WRONG_COMMAND && !this.#anyLives()) {
      this.#code = WRONG_COMMAND;
      this.stop('SIGTERM');
      return;
    } else this.#startLater(place, how);
    this.#endIfEmpty();
  }

  #fail(fields: object): void {
    this.#code ||= 1;
    this.#logger.error(fields, 'worker process failed');
  }

  #startLater(place: Place, how: string): void {
    place.failures += 1;
    const { firstPauseMs, longestPauseMs } = this.#times;
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(20, place.failures - 1));
    const { name } = place.member;
    const waiting = this.#places.filter(({ child, timer }) => child ?? timer);
    const hopeless = [place, ...waiting].every(({ child, failures }) => !child && failures >= MAX_FAILURES);
    if (hopeless) {
      this.#fail({ name, how, failures: place.failures });
      this.stop('SIGTERM');
      return;
    }
    this.#logger.error({ name, how, failures: place.failures, pauseMs }, 'worker process failed, it is started again');
    place.timer = setTimeout(() => this.#start(place), pauseMs);
  }

  /** Where others do their work, what one cannot begin with may pass. */
  #anyLives(): boolean {
    const { healthyMs } = this.#times;
    return this.#places.some(({ child, sinceMs }) => child && performance.now() - sinceMs >= healthyMs);
  }

  #endIfEmpty(): void {
    if (this.#places.every(({ child, timer }) => !child && !timer)) this.#end(this.#code);
  }
}
