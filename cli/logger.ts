import { createLogger, type SwitchableLogger } from '../shared/runtime/logger.ts';

/** What Triton's four log options say. */
export function loggerOf(settings: {
  readonly logVerbose: number;
  readonly logInfo: boolean;
  readonly logWarning: boolean;
  readonly logError: boolean;
}): SwitchableLogger {
  return createLogger({
    debug: settings.logVerbose > 0,
    info: settings.logInfo,
    warn: settings.logWarning,
    error: settings.logError,
  });
}
