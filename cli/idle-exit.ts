import type { Logger } from '../shared/runtime/logger.ts';
import type { Consumer } from '../worker/consumer/create-consumer.ts';

export interface IdleExit {
  readonly consumer: Pick<Consumer, 'lastWorkMs' | 'waitingJobs'>;
  readonly idleMs: number;
  readonly leave: (reason: string) => void;
  readonly logger: Logger;
}

const LOOK_MS = 500;

/**
 * Has the worker leave once it has had no job for so long. A job that arrives while it leaves goes back to its queue, or was
 * never taken from it, and waits there for the next worker; one that waits already keeps this one.
 */
export function leaveWhenIdle({ consumer, idleMs, leave, logger }: IdleExit): void {
  let looking = false;
  const look = async (): Promise<void> => {
    if (looking || performance.now() - consumer.lastWorkMs() < idleMs) return;
    looking = true;
    try {
      const waiting = await consumer.waitingJobs();
      if (waiting > 0 || performance.now() - consumer.lastWorkMs() < idleMs) return;
      clearInterval(timer);
      leave('idle');
    } catch (error) {
      // Without Redis nobody can say that nothing waits.
      logger.debug({ error: String(error) }, 'not looked whether the worker is idle');
    } finally {
      looking = false;
    }
  };
  const timer = setInterval(() => void look(), Math.min(LOOK_MS, idleMs));
  timer.unref();
}
