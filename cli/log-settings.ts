import { DEFAULT_LOG_VALUES, LogSettings } from '../producer/service/log-settings.ts';
import type { SwitchableLogger } from '../shared/runtime/logger.ts';
import type { Settings } from './flags/catalogue.ts';

/** What the process logs, as the command line said it and as clients may change it. */
export function logSettingsOf(
  settings: Settings<'producer'> | Settings<'serve'>,
  logger: SwitchableLogger,
): LogSettings {
  const values = {
    ...DEFAULT_LOG_VALUES,
    log_info: settings.logInfo,
    log_warning: settings.logWarning,
    log_error: settings.logError,
    log_verbose_level: settings.logVerbose,
  };
  return new LogSettings(values, (kinds) => logger.writeOnly(kinds));
}
