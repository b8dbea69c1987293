import { type DescField, ScalarType } from '@bufbuild/protobuf';
import { type ReflectMessage, isReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';

/** `added` and `removed` against another config, `same` in both. */
export type LineMark = 'same' | 'added' | 'removed';

/** A line of a config's text. */
export interface ConfigLine {
  readonly mark: LineMark;
  readonly text: string;
}

/**
 * A config as the text of a config.pbtxt, in the layout that people write: lists of numbers on one line, a block for each
 * input, fields in the order in which Triton shows them. What the parser reads from it is the same config.
 */
export function encodeModelConfigText(config: ModelConfig): string {
  const lines = messageLines(reflect(ModelConfigSchema, config), undefined, 'same');
  return lines.map((line) => `${layout(line)}\n`).join('');
}

/** The text of `config`, each line marked by what `written` says there; what only `written` has is `removed`. */
export function diffModelConfigs(written: ModelConfig, config: ModelConfig): ConfigLine[] {
  const base = reflect(ModelConfigSchema, written);
  const lines = messageLines(reflect(ModelConfigSchema, config), base, 'same');
  return lines.map((line) => ({ mark: line.mark, text: layout(line) }));
}

interface Line {
  readonly mark: LineMark;
  readonly depth: number;
  readonly text: string;
}

function layout({ depth, text }: Line): string {
  return `${'  '.repeat(depth)}${text}`;
}

/** `mark` is that of a message which is there on one side only; its fields are marked one by one where there is a base. */
function messageLines(message: ReflectMessage, base: ReflectMessage | undefined, mark: LineMark): Line[] {
  return message.fields.flatMap((field) => {
    const now = valuesOf(message, field);
    if (!base) return now.flatMap((value) => valueLines(field, value, undefined, mark));
    const before = valuesOf(base, field);
    const lines: Line[] = [];
    for (const value of now) {
      const old = before.find((candidate) => candidate.id === value.id);
      if (old && (isReflectMessage(value.value) || scalarText(old) === scalarText(value))) {
        lines.push(...valueLines(field, value, old, 'same'));
      } else {
        if (old) lines.push(...valueLines(field, old, undefined, 'removed'));
        lines.push(...valueLines(field, value, undefined, 'added'));
      }
    }
    const gone = before.filter((old) => !now.some(({ id }) => id === old.id));
    return [...lines, ...gone.flatMap((old) => valueLines(field, old, undefined, 'removed'))];
  });
}

/** What stands behind one field name: a scalar, a whole list of scalars, one message of a list, one entry of a map. */
interface FieldValue {
  /** What tells it from the others of the same field. */
  readonly id: string;
  readonly value: ReflectMessage | string;
  /** Entries of a map. */
  readonly key?: string;
}

function valuesOf(message: ReflectMessage, field: DescField): FieldValue[] {
  if (!message.isSet(field)) return [];
  switch (field.fieldKind) {
    case 'message':
      return [{ id: '', value: message.get(field) }];
    case 'enum':
      return [{ id: '', value: enumText(field, message.get(field)) }];
    case 'scalar':
      return [{ id: '', value: plainText(field.scalar, message.get(field)) }];
    case 'list': {
      const items = [...message.get(field)];
      if (field.listKind === 'message') {
        return items.flatMap((item, index) => (isReflectMessage(item) ? [{ id: String(index), value: item }] : []));
      }
      return [{ id: '', value: `[ ${items.map((item) => itemText(field, item)).join(', ')} ]` }];
    }
    case 'map':
      return Array.from(message.get(field), ([key, item]) => ({
        id: String(key),
        key: plainText(field.mapKey, key),
        value: isReflectMessage(item) ? item : itemText(field, item),
      }));
  }
}

function scalarText({ value }: FieldValue): string | undefined {
  return isReflectMessage(value) ? undefined : value;
}

function valueLines(field: DescField, now: FieldValue, old: FieldValue | undefined, mark: LineMark): Line[] {
  const base = old && isReflectMessage(old.value) ? old.value : undefined;
  if (now.key !== undefined) {
    const value = named('value', now.value, base, mark);
    return block(field.name, [{ mark, depth: 0, text: `key: ${now.key}` }, ...value], mark);
  }
  return named(field.name, now.value, base, mark);
}

function named(name: string, value: ReflectMessage | string, base: ReflectMessage | undefined, mark: LineMark): Line[] {
  if (typeof value === 'string') return [{ mark, depth: 0, text: `${name}: ${value}` }];
  return block(name, messageLines(value, base, mark), mark, emptyListOf(value));
}

/** A message of one list only says something by being there: `reshape { shape: [ ] }` is a scalar. */
function emptyListOf({ fields }: ReflectMessage): string {
  const [only, ...others] = fields;
  return only?.fieldKind === 'list' && others.length === 0 ? `${only.name}: [ ] ` : '';
}

/** One short field inside stays on the line. */
const MAX_ONE_LINE = 100;

function block(name: string, inside: readonly Line[], mark: LineMark, whenEmpty = ''): Line[] {
  const [first, ...others] = inside;
  if (!first) return [{ mark, depth: 0, text: `${name} { ${whenEmpty}}` }];
  const one = `${name} { ${first.text} }`;
  if (others.length === 0 && first.mark === mark && one.length <= MAX_ONE_LINE) return [{ mark, depth: 0, text: one }];
  return [
    { mark, depth: 0, text: `${name} {` },
    ...inside.map((line) => ({ ...line, depth: line.depth + 1 })),
    { mark, depth: 0, text: '}' },
  ];
}

function itemText(field: DescField & { fieldKind: 'list' | 'map' }, item: unknown): string {
  return field.enum ? enumText(field, item) : plainText(field.scalar ?? ScalarType.STRING, item);
}

/** A number that has no name is written as it is, which the parser takes too. */
function enumText(field: DescField, value: unknown): string {
  return field.enum?.values.find((known) => known.number === value)?.name ?? String(value);
}

function plainText(type: ScalarType, value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number') return type === ScalarType.FLOAT ? floatText(value) : numberText(value);
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  throw new TypeError(`a config holds no value of type ${ScalarType[type]}`);
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  return Object.is(value, -0) ? '-0' : String(value);
}

/** The shortest text that stands for the same number of 32 bits: 0.1, not 0.10000000149011612. */
function floatText(value: number): string {
  for (let digits = 1; digits < 9 && Number.isFinite(value) && value !== 0; digits += 1) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === Math.fround(value)) return numberText(text);
  }
  return numberText(value);
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
  ['"', '\\"'],
  ['\\', '\\\\'],
]);

function quote(text: string): string {
  // Escapes of control characters have three octal digits, so that a digit behind them is not taken for one of theirs.
  const escaped = text.replace(/["\\\u0000-\u001f\u007f]/g, (character) => {
    return ESCAPES.get(character) ?? `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`;
  });
  return `"${escaped}"`;
}
