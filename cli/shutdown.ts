import type { Logger } from '../shared/runtime/logger.ts';

/** Set in the environment of the processes of a WorkerGroup. */
export const GROUP_MARK = 'MILLRACE_GROUP';

/** What `close` may need beyond the grace period for what it does after the last answer. */
const MARGIN_MS = 2000;

/**
 * Ends the process on SIGTERM or SIGINT: `close` gets the grace period in ms, and the process leaves with 0 when it is
 * done, with 1 when it failed. A second signal, or a `close` that does not end, kills the process.
 * @returns leaves in the same way for another reason, with another code if given; does nothing while the process leaves already
 */
export function closeOnSignal(
  close: (graceMs: number) => Promise<void>,
  graceMs: number,
  logger: Logger,
): (reason: string, code?: number) => void {
  let closing = false;
  const leaveFor = (reason: object, ownCode = 0): void => {
    closing = true;
    logger.info({ ...reason, graceMs }, 'shutting down');
    const patience = setTimeout(() => {
      logger.error({ graceMs }, 'requests were still in hand when the grace period ended');
      killSelf();
    }, graceMs + MARGIN_MS);
    const leave = (code: number): void => {
      clearTimeout(patience);
      process.exit(code);
    };
    close(graceMs).then(
      () => leave(ownCode),
      (error: unknown) => {
        logger.error({ error: String(error) }, 'shutdown failed');
        leave(1);
      },
    );
  };
  let signalled = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    // A supervisor may signal each process of a group, beside what the group passes on.
    if (signalled && !isMember()) killSelf();
    signalled = true;
    if (!closing) leaveFor({ signal });
  };
  onEndSignal(onSignal);
  return (reason, code) => {
    if (!closing) leaveFor({ reason }, code);
  };
}

/**
 * Until there is something to close, a signal ends the process at once. That is what the system does anyway, except to the
 * first process of a container, which without this would go on loading models until it is killed.
 */
export function leaveOnSignalWhileStarting(): void {
  if (process.pid !== 1) return;
  process.on('SIGTERM', leaveAtOnce);
  process.on('SIGINT', leaveAtOnce);
}

/** From now on these signals are for `listener`, and no longer end the process at once. */
export function onEndSignal(listener: (signal: NodeJS.Signals) => void): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.off(signal, leaveAtOnce);
    process.on(signal, listener);
  }
}

/** A worker of a group leaves, as on SIGTERM, when the process that keeps the group is gone. */
export function leaveWithGroup(): void {
  if (!isMember()) return;
  const leave = (): boolean => process.kill(process.pid, 'SIGTERM');
  if (!process.channel) {
    leave(); // it was gone before
    return;
  }
  process.once('disconnect', leave);
  process.channel.unref(); // listening alone must not keep the process
}

/** Whether this process is one of a WorkerGroup. */
function isMember(): boolean {
  return process.env[GROUP_MARK] !== undefined;
}

function leaveAtOnce(signal: NodeJS.Signals): void {
  process.exit(signal === 'SIGTERM' ? 143 : 130);
}

/** `process.exit` waits for model runs under way, which may never end. */
function killSelf(): void {
  process.kill(process.pid, 'SIGKILL');
}
