import type { Logger } from '../shared/runtime/logger.ts';

/**
 * Ends the process on SIGTERM or SIGINT: `close` gets the grace period in ms and the process leaves with 0 when it is
 * done, with 1 when it failed or took longer. A second signal ends the process at once.
 */
export function closeOnSignal(close: (graceMs: number) => Promise<void>, graceMs: number, logger: Logger): void {
  let closing = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) process.exit(1);
    closing = true;
    logger.info({ signal, graceMs }, 'shutting down');
    const patience = setTimeout(() => {
      logger.error({ graceMs }, 'requests were still in hand when the grace period ended');
      process.exit(1);
    }, graceMs + 2000);
    close(graceMs).then(
      () => {
        clearTimeout(patience);
        process.exit(0);
      },
      (error: unknown) => {
        logger.error({ error: String(error) }, 'shutdown failed');
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}
