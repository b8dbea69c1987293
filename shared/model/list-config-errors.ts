import { fromText } from '@bufbuild/protobuf/txtpb';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';
import { locateConfigError } from './config-error-position.ts';
import { fieldAt, readConfigFields } from './config-fields.ts';
import { explainConfigError } from './explain-config-error.ts';
import { problemOf } from './parse-config.ts';

/** A mistake in the text of a config. Line and column count from 1. */
export interface ConfigError {
  readonly line: number;
  readonly column: number;
  readonly what: string;
}

/** A text with more mistakes than this is no config. */
const MAX_ERRORS = 50;

/**
 * Reads the text of a config.pbtxt and lists all its mistakes, not only the first: a field that the parser refuses is
 * blanked out, and the rest is read again, until the brackets or commas themselves are wrong. Returns the config when
 * there is none.
 */
export function listConfigErrors(text: string): ModelConfig | ConfigError[] {
  let rest = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const errors: ConfigError[] = [];
  while (errors.length < MAX_ERRORS) {
    const problem = problemOf(rest);
    if (problem === undefined) break;
    const place = locateConfigError(rest, problemOf);
    errors.push({ line: place.line, column: place.column, what: explainConfigError(problem, place) });
    const shorter = blankField(rest, place.index, problem);
    if (shorter === undefined) break;
    rest = shorter;
  }
  return errors.length === 0 ? fromText(ModelConfigSchema, rest) : errors;
}

/** Mistakes of one field, whose end is known. */
const OF_ONE_FIELD = /^(?:unknown |non-repeated field |oneof |cannot decode field )/;

/** The text with blanks instead of the wrong field; undefined where it is not sure which text that is. */
function blankField(text: string, index: number, problem: string): string | undefined {
  const field = fieldAt(readConfigFields(text), index);
  if (!field) return undefined;
  // A value of the wrong type; on another line it is more likely the next field, behind a value that was forgotten.
  const wrongValue = /^expected (?!a field name)/.test(problem) && !text.slice(field.start, index).includes('\n');
  if (!wrongValue && !OF_ONE_FIELD.test(problem)) return undefined;
  const separator = /^\s*[,;]/.exec(text.slice(field.end))?.[0].length ?? 0;
  const end = field.end + separator; // two separators in a row would be a mistake of ours
  const blank = text.slice(field.start, end).replace(/[^\n]/g, ' ');
  const shorter = text.slice(0, field.start) + blank + text.slice(end);
  return shorter === text ? undefined : shorter;
}
