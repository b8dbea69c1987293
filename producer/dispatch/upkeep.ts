import type { Redis } from 'ioredis';
import { ControlFileLease } from '../../shared/directory/control-files.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { WorkerQueueSweep } from '../../shared/runtime/worker-queues.ts';

/** What a producer does for the pool as a whole, whoever else does it too. To be called again and again. */
export function createUpkeep(redis: Redis, logger: Logger): () => void {
  const parts = [new WorkerQueueSweep(redis, logger), new ControlFileLease(redis, logger)];
  return () => {
    for (const part of parts) {
      part.tend().catch((error: unknown) => logger.debug({ error: String(error) }, 'upkeep of the pool failed'));
    }
  };
}
