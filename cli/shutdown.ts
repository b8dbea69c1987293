import type { Logger } from '../shared/runtime/logger.ts';

/** What `close` may need beyond the grace period for what it does after the last answer. */
const MARGIN_MS = 2000;

/**
 * Ends the process on SIGTERM or SIGINT: `close` gets the grace period in ms, and the process leaves with 0 when it is
 * done, with 1 when it failed. A second signal, or a `close` that does not end, kills the process.
 */
export function closeOnSignal(close: (graceMs: number) => Promise<void>, graceMs: number, logger: Logger): void {
  let closing = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) killSelf();
    closing = true;
    logger.info({ signal, graceMs }, 'shutting down');
    const patience = setTimeout(() => {
      logger.error({ graceMs }, 'requests were still in hand when the grace period ended');
      killSelf();
    }, graceMs + MARGIN_MS);
    const leave = (code: number): void => {
      clearTimeout(patience);
      process.exit(code);
    };
    close(graceMs).then(
      () => leave(0),
      (error: unknown) => {
        logger.error({ error: String(error) }, 'shutdown failed');
        leave(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** `process.exit` waits for model runs under way, which may never end. */
function killSelf(): void {
  process.kill(process.pid, 'SIGKILL');
}
