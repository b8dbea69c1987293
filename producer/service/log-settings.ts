import { InferError } from '../../shared/errors.ts';
import { nearestName } from '../../shared/nearest-name.ts';
import type { LogKinds } from '../../shared/runtime/logger.ts';
import { shownText, shownValue } from '../../shared/tensor/text.ts';

/** The log settings in Triton's words. */
export interface LogValues {
  readonly log_file: string;
  readonly log_info: boolean;
  readonly log_warning: boolean;
  readonly log_error: boolean;
  /** 1 and more logs details. */
  readonly log_verbose_level: number;
  /** Kept and answered only: a line is JSON with an ISO 8601 time, whatever it says. */
  readonly log_format: string;
}

export const DEFAULT_LOG_VALUES: LogValues = Object.freeze({
  log_file: '',
  log_info: true,
  log_warning: true,
  log_error: true,
  log_verbose_level: 0,
  log_format: 'default',
});

const NAMES = Object.keys(DEFAULT_LOG_VALUES);
const FORMATS = ['default', 'ISO8601'];
const MAX_VERBOSE_LEVEL = 2 ** 31 - 1;

/** What the server logs; changes take effect at once. */
export class LogSettings {
  #values: LogValues;
  readonly #apply: (kinds: LogKinds) => void;

  /** @param apply tells the logger */
  constructor(values: LogValues, apply: (kinds: LogKinds) => void) {
    this.#values = values;
    this.#apply = apply;
  }

  get values(): LogValues {
    return this.#values;
  }

  /**
   * Changes all that is named, or nothing.
   * @throws InferError INVALID_ARGUMENT for an unknown setting or a value that cannot be, UNIMPLEMENTED for the log file
   */
  change(change: ReadonlyMap<string, unknown>): void {
    let next = this.#values;
    for (const [name, value] of change) next = { ...next, ...parseSetting(name, value) };
    this.#values = next;
    this.#apply(logKindsOf(next));
  }
}

export function logKindsOf(values: LogValues): LogKinds {
  return {
    debug: values.log_verbose_level > 0,
    info: values.log_info,
    warn: values.log_warning,
    error: values.log_error,
  };
}

function parseSetting(name: string, value: unknown): Partial<LogValues> {
  switch (name) {
    case 'log_info':
    case 'log_warning':
    case 'log_error':
      if (typeof value === 'boolean') return { [name]: value };
      throw invalid(name, 'true or false', value);
    case 'log_verbose_level':
      if (isVerboseLevel(value)) return { log_verbose_level: value };
      throw invalid(name, `a whole number from 0 to ${MAX_VERBOSE_LEVEL}`, value);
    case 'log_format':
      if (typeof value === 'string' && FORMATS.includes(value)) return { log_format: value };
      throw invalid(name, FORMATS.join(' or '), value);
    case 'log_file':
      throw new InferError('UNIMPLEMENTED', 'log_file cannot be changed: the log goes to standard error');
    default: {
      const suggestion = nearestName(name, NAMES);
      const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
      throw new InferError(
        'INVALID_ARGUMENT',
        `unknown log setting ${shownText(name)}, expected one of ${NAMES.join(', ')}${hint}`,
      );
    }
  }
}

function isVerboseLevel(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MAX_VERBOSE_LEVEL;
}

function invalid(name: string, expected: string, value: unknown): InferError {
  return new InferError('INVALID_ARGUMENT', `${name} must be ${expected}, got ${shownValue(value)}`);
}
