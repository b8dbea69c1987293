import { InferError } from '../../shared/errors.ts';
import { nearestName } from '../../shared/nearest-name.ts';
import { shownNames, shownText } from '../../shared/tensor/text.ts';

/** The trace settings in Triton's words; numbers are texts, as in both of its protocols. */
export interface TraceValues {
  readonly trace_level: readonly string[];
  readonly trace_rate: string;
  readonly trace_count: string;
  readonly log_frequency: string;
  readonly trace_file: string;
  readonly trace_mode: string;
}

/** New values by name. An empty list takes a value back: a model's own gives way to the server's, the server's to the default. */
export type TraceChange = ReadonlyMap<string, readonly string[]>;

type Setting = 'trace_level' | 'trace_rate' | 'trace_count' | 'log_frequency';

const DEFAULTS: TraceValues = Object.freeze({
  trace_level: Object.freeze(['OFF']),
  trace_rate: '1000',
  trace_count: '-1',
  log_frequency: '0',
  trace_file: '',
  trace_mode: 'triton',
});

const NAMES = Object.keys(DEFAULTS);
const LEVELS = ['OFF', 'TIMESTAMPS', 'TENSORS', 'MIN', 'MAX'];

/** The least value of each number. */
const MINIMUM = { trace_rate: 0, trace_count: -1, log_frequency: 0 } as const;
const MAXIMUM = 2 ** 31 - 1;

/**
 * The trace settings of the server and of single models. This server writes no Triton traces: the settings are kept, so
 * that tools that read or set them go on working, and a level that asks for traces is refused.
 */
export class TraceSettings {
  #server: Partial<TraceValues> = {};
  readonly #models = new Map<string, Partial<TraceValues>>();

  /** @param model undefined for the server's own */
  valuesOf(model: string | undefined): TraceValues {
    return { ...DEFAULTS, ...this.#server, ...(model === undefined ? {} : this.#models.get(model)) };
  }

  /**
   * Changes all that is named, or nothing.
   * @param model one that exists; undefined for the server
   * @throws InferError INVALID_ARGUMENT for an unknown setting or a value that cannot be, UNIMPLEMENTED for one that only
   *   the command line could set
   */
  change(model: string | undefined, change: TraceChange): void {
    const next: Partial<Record<keyof TraceValues, unknown>> = {
      ...(model === undefined ? this.#server : this.#models.get(model)),
    };
    for (const [name, values] of change) {
      const setting = changeable(name);
      if (values.length === 0) Reflect.deleteProperty(next, setting);
      else next[setting] = setting === 'trace_level' ? parseLevel(values) : parseNumber(setting, values);
    }
    const checked = next as Partial<TraceValues>; // each value comes from its own parser
    if (model === undefined) this.#server = checked;
    else if (Object.keys(next).length === 0) this.#models.delete(model);
    else this.#models.set(model, checked);
  }
}

function changeable(name: string): Setting {
  switch (name) {
    case 'trace_level':
    case 'trace_rate':
    case 'trace_count':
    case 'log_frequency':
      return name;
    case 'trace_file':
    case 'trace_mode':
      throw new InferError('UNIMPLEMENTED', `${name} cannot be changed while the server runs`);
    default: {
      const suggestion = nearestName(name, NAMES);
      const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
      throw new InferError(
        'INVALID_ARGUMENT',
        `unknown trace setting ${shownText(name)}, expected one of ${NAMES.join(', ')}${hint}`,
      );
    }
  }
}

function parseLevel(values: readonly string[]): readonly string[] {
  const unknown = values.filter((level) => !LEVELS.includes(level));
  if (unknown.length > 0) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `unknown trace_level ${shownNames(unknown)}, expected some of ${LEVELS.join(', ')}`,
    );
  }
  if (values.some((level) => level !== 'OFF')) {
    throw new InferError(
      'INVALID_ARGUMENT',
      values.includes('OFF')
        ? 'trace_level OFF cannot be combined with another level'
        : `trace_level ${shownNames(values)}: this server writes no traces, only OFF is possible`,
    );
  }
  return ['OFF'];
}

function parseNumber(setting: keyof typeof MINIMUM, values: readonly string[]): string {
  const [text = ''] = values;
  const value = /^-?\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (values.length === 1 && value >= MINIMUM[setting] && value <= MAXIMUM) return String(value);
  throw new InferError(
    'INVALID_ARGUMENT',
    `${setting} must be one whole number from ${MINIMUM[setting]} to ${MAXIMUM} as a text, got ${shownNames(values)}`,
  );
}
