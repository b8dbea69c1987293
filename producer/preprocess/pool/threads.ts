import { Piscina } from 'piscina';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ThreadReply, ThreadTask } from './messages.ts';
import { threadEntry } from './thread-entry.ts';

/** Threads that each take one task at a time. */
export interface Threads {
  readonly count: number;
  /** Runs a task; the caller never gives more than `count` at once. */
  run(task: ThreadTask): Promise<ThreadReply>;
  /** Ends the threads, which must be idle. */
  close(): Promise<void>;
}

/** Starts `count` threads of preprocess-thread.ts. */
export function createThreads(count: number, logger: Logger): Threads {
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
  return {
    count,
    run(task) {
      if (task.kind !== 'image') return piscina.run(task);
      // A copy that moves: a clone would copy twice, and all of the memory that the body may share with others.
      const bytes = new Uint8Array(task.bytes);
      return piscina.run({ ...task, bytes }, { transferList: [bytes.buffer] });
    },
    close: () => piscina.close(),
  };
}
