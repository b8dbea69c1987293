import { InferError } from '../../../shared/errors.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Executor } from '../execute/executor.ts';
import type { OpenRequests } from './open-requests.ts';
import type { PendingRequest } from './pending-request.ts';

/** Node takes a longer one for 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * The end of any scheduler, after it has begun to drain: lets requests end for `graceMs`, then fails those that
 * `takeWaiting` still finds and those that run, and closes the instances. False when one could not
 * be closed.
 */
export async function closeGracefully(
  { model, open, executor, clock }: { model: string; open: OpenRequests; executor: Executor; clock: Clock },
  empty: Promise<void>,
  graceMs: number,
  takeWaiting: () => PendingRequest[],
): Promise<boolean> {
  await new Promise<void>((resolve) => {
    const cancelTimer = clock.setTimer(resolve, Math.min(graceMs, LONGEST_TIMER_MS));
    void empty.then(() => {
      cancelTimer();
      resolve();
    });
  });
  const error = new InferError('UNAVAILABLE', `model '${model}' was unloaded before the request was answered`);
  for (const item of takeWaiting()) open.fail(item, error);
  executor.abort(error);
  return executor.close();
}
