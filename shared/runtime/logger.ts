import { pino } from 'pino';

/** The part of pino that we use. Events are short constant texts; everything that varies is a field. */
export interface Logger {
  debug(fields: object, event: string): void;
  info(fields: object, event: string): void;
  warn(fields: object, event: string): void;
  error(fields: object, event: string): void;
}

/** Which kinds of lines are written. They are independent of each other, as Triton's options are. */
export type LogKinds = Readonly<Record<keyof Logger, boolean>>;

/** A logger that can be told, while it is in use, what to write. */
export interface SwitchableLogger extends Logger {
  writeOnly(kinds: LogKinds): void;
}

/** Bytes of lines that are kept while they cannot be written; later ones are dropped. */
const MAX_UNWRITTEN_BYTES = 1024 * 1024;

/** JSON lines on stderr; stdout belongs to what a person asked for. A disk that is full costs lines, not the process. */
export function createLogger(initial: LogKinds): SwitchableLogger {
  const destination = pino.destination({ dest: 2, sync: true, maxLength: MAX_UNWRITTEN_BYTES });
  destination.on('error', () => undefined); // there is nowhere to tell it
  const lines = pino({ level: 'debug', base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination);
  let writes = initial;
  return {
    writeOnly(kinds) {
      writes = kinds;
    },
    debug(fields, event) {
      if (writes.debug) lines.debug(fields, event);
    },
    info(fields, event) {
      if (writes.info) lines.info(fields, event);
    },
    warn(fields, event) {
      if (writes.warn) lines.warn(fields, event);
    },
    error(fields, event) {
      if (writes.error) lines.error(fields, event);
    },
  };
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
