import { createLogger, type Logger } from '../shared/runtime/logger.ts';

/** Triton's four log options as one level. */
export function loggerOf(settings: {
  readonly logVerbose: number;
  readonly logInfo: boolean;
  readonly logWarning: boolean;
  readonly logError: boolean;
}): Logger {
  if (settings.logVerbose > 0) return createLogger('debug');
  if (settings.logInfo) return createLogger('info');
  if (settings.logWarning) return createLogger('warn');
  return createLogger(settings.logError ? 'error' : 'silent');
}
