import { pino } from 'pino';

/** The part of pino that we use. Events are short constant texts; everything that varies is a field. */
export interface Logger {
  debug(fields: object, event: string): void;
  info(fields: object, event: string): void;
  warn(fields: object, event: string): void;
  error(fields: object, event: string): void;
}

/** JSON lines on stderr; stdout belongs to what a person asked for. */
export function createLogger(level: 'debug' | 'info' | 'warn' | 'error' | 'silent'): Logger {
  return pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: true }),
  );
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
