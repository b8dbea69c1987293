import type { DescEnum, DescMessage } from '@bufbuild/protobuf';
import { nestedTypes } from '@bufbuild/protobuf/reflect';
import { file_model_config } from '../proto/generated/model_config_pb.ts';
import type { ConfigErrorPlace } from './config-error-position.ts';
import { nearestName } from '../nearest-name.ts';

/** What is wrong, in the words of someone who writes config files, with the likely fix. */
export function explainConfigError(message: string, place: ConfigErrorPlace): string {
  const unknownField = /^unknown field "(.*)" for message (\S+)$/s.exec(message);
  if (unknownField) return explainUnknownField(unknownField[1] ?? '', unknownField[2] ?? '');
  const unknownValue = /^unknown enum value "(.*)" for enum (\S+)$/s.exec(message);
  if (unknownValue) return explainUnknownValue(unknownValue[1] ?? '', unknownValue[2] ?? '');
  const outOfRange = /^cannot decode field \S*?([^.\s]+) from text format: (.*)$/s.exec(message);
  if (outOfRange) return `${outOfRange[1] ?? ''}: ${outOfRange[2] ?? ''}`;
  return message + hintFor(place);
}

function explainUnknownField(name: string, typeName: string): string {
  const message = findMessage(typeName);
  const where = shortName(typeName);
  if (!message) return `unknown field "${name}" in ${where}`;
  const parents = message.fields.filter((field) => field.message?.fields.some((inner) => inner.name === name));
  const hint =
    parents.length > 0
      ? `it belongs inside ${parents.map((field) => `"${field.name}"`).join(' or ')}`
      : suggestion(
          name,
          message.fields.map((field) => field.name),
        );
  return `unknown field "${name}" in ${where}; ${hint}`;
}

function explainUnknownValue(name: string, typeName: string): string {
  const values = findEnum(typeName)?.values.map((value) => value.name) ?? [];
  const other = OTHER_TYPE_NAMES.get(name.replace(/^TYPE_/, ''));
  const hint = other !== undefined && values.includes(other) ? `did you mean "${other}"?` : suggestion(name, values);
  return `unknown value "${name}" for ${shortName(typeName)}; ${hint}`;
}

/** What other tools call the data types. */
const OTHER_TYPE_NAMES: ReadonlyMap<string, string> = new Map([
  ['BYTES', 'TYPE_STRING'],
  ['FLOAT', 'TYPE_FP32'],
  ['FLOAT32', 'TYPE_FP32'],
  ['FLOAT16', 'TYPE_FP16'],
  ['HALF', 'TYPE_FP16'],
  ['BFLOAT16', 'TYPE_BF16'],
  ['FLOAT64', 'TYPE_FP64'],
  ['DOUBLE', 'TYPE_FP64'],
  ['INT', 'TYPE_INT32'],
  ['LONG', 'TYPE_INT64'],
]);

function suggestion(name: string, candidates: readonly string[]): string {
  const nearest = nearestName(name, candidates);
  if (nearest !== undefined) return `did you mean "${nearest}"?`;
  return `known are ${candidates.join(', ')}`;
}

function hintFor(place: ConfigErrorPlace): string {
  if (place.unclosed) {
    const { bracket, line, column } = place.unclosed;
    return `; the "${bracket}" at ${line}:${column} is not closed`;
  }
  if (place.token === ']' && place.previous === ',') return '; a list may not end with a comma';
  if (place.token.startsWith('/')) return '; comments start with "#"';
  if (place.token.startsWith('$')) return '; was a placeholder of a template left in?';
  return '';
}

function shortName(typeName: string): string {
  return typeName.replace(/^inference\./, '');
}

function findMessage(typeName: string): DescMessage | undefined {
  for (const type of nestedTypes(file_model_config)) {
    if (type.kind === 'message' && type.typeName === typeName) return type;
  }
  return undefined;
}

function findEnum(typeName: string): DescEnum | undefined {
  for (const type of nestedTypes(file_model_config)) {
    if (type.kind === 'enum' && type.typeName === typeName) return type;
  }
  return undefined;
}
