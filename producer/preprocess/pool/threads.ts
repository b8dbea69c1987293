import { Piscina } from 'piscina';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ThreadReply, ThreadTask } from './messages.ts';
import { threadEntry } from './thread-entry.ts';

/** Threads that each take one task at a time. */
export interface Threads {
  readonly count: number;
  /** Starts the threads, so that the first task need not. */
  start(): void;
  /** Runs a task; the caller never gives more than `count` at once. */
  run(task: ThreadTask): Promise<ThreadReply>;
  /** Ends the threads, which must be idle. */
  close(): Promise<void>;
}

/** `count` threads of preprocess-thread.ts, started when they are first needed: each holds some 40 MB. */
export function createThreads(count: number, logger: Logger): Threads {
  let started: Piscina<ThreadTask, ThreadReply> | undefined;
  const threads = () => (started ??= startThreads(count, logger));
  return {
    count,
    start: () => void threads(),
    run(task) {
      if (task.kind !== 'image') return threads().run(task);
      // A copy that moves: a clone would copy twice, and all of the memory that the body may share with others.
      const bytes = new Uint8Array(task.bytes);
      return threads().run({ ...task, bytes }, { transferList: [bytes.buffer] });
    },
    close: async () => started?.close(),
  };
}

function startThreads(count: number, logger: Logger): Piscina<ThreadTask, ThreadReply> {
  const piscina = new Piscina<ThreadTask, ThreadReply>({
    filename: threadEntry(),
    minThreads: count,
    maxThreads: count,
    // No flags of this process: a loader for TypeScript or a coverage tool has no business in there.
    execArgv: [],
  });
  piscina.on('error', (error: unknown) => {
    logger.error({ error: error instanceof Error ? error.message : String(error) }, 'preprocessing thread failed');
  });
  return piscina;
}
