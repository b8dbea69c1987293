import { delimiter } from 'node:path';
import { parseArgs } from 'node:util';
import { InferError } from '../../shared/errors.ts';
import { nearestName } from '../../shared/nearest-name.ts';
import { COMMAND_FLAGS, FLAGS, type CommandName, type FlagKey, type Settings } from './catalogue.ts';
import { environmentName, type Flag } from './flag.ts';

/**
 * Options of a command from its arguments and the environment: the command line wins over the environment, the
 * environment over the default.
 * @throws InferError INVALID_ARGUMENT with the option, what was expected and what was given.
 */
export function parseFlags<C extends CommandName>(
  command: C,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Settings<C> {
  const keys: readonly FlagKey[] = COMMAND_FLAGS[command];
  const given = readArguments(command, keys, args);
  const settings: Record<string, unknown> = {};
  for (const key of keys) {
    const flag: Flag = FLAGS[key];
    const texts = given.get(key) ?? readEnvironment(flag, environment);
    if (texts === undefined) settings[key] = flag.repeatable ? [] : flag.default;
    else if (flag.repeatable) settings[key] = texts.values;
    else settings[key] = readValue(flag, texts.source, texts.values.at(-1) ?? '');
  }
  return settings as Settings<C>; // built key by key from the same catalogue that the type is derived from
}

interface Given {
  /** What the person wrote, for error messages. */
  readonly source: string;
  readonly values: string[];
}

function readArguments(command: string, keys: readonly FlagKey[], args: readonly string[]): Map<FlagKey, Given> {
  const byName = new Map<string, FlagKey>();
  for (const key of keys) {
    const flag: Flag = FLAGS[key];
    for (const name of [flag.name, ...(flag.aliases ?? [])]) byName.set(name, key);
  }
  const options = Object.fromEntries(
    [...byName].map(([name, key]) => [
      name,
      { type: FLAGS[key].type === 'boolean' ? ('boolean' as const) : ('string' as const), multiple: true },
    ]),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true, allowPositionals: true });
  const given = new Map<FlagKey, Given>();
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional') {
      throw new InferError('INVALID_ARGUMENT', `unexpected argument "${token.value}" for millrace ${command}`);
    }
    const key = byName.get(token.name);
    if (key === undefined) throw unknownOption(command, token.rawName, token.name, byName.keys());
    const flag: Flag = FLAGS[key];
    const value = token.value ?? (flag.type === 'boolean' ? 'true' : undefined);
    if (value === undefined) {
      throw new InferError('INVALID_ARGUMENT', `${token.rawName} needs a value: ${token.rawName}=${flag.value}`);
    }
    const entry = given.get(key);
    if (entry) entry.values.push(value);
    else given.set(key, { source: token.rawName, values: [value] });
  }
  return given;
}

function unknownOption(command: string, rawName: string, name: string, known: Iterable<string>): InferError {
  const suggestion = nearestName(name, [...known]);
  const hint = suggestion === undefined ? '' : `; did you mean --${suggestion}?`;
  const elsewhere = Object.values(FLAGS).some((flag: Flag) => flag.name === name);
  const what = elsewhere ? `${rawName} is not an option of millrace ${command}` : `unknown option ${rawName}`;
  return new InferError('INVALID_ARGUMENT', `${what}${hint} (millrace ${command} --help lists them)`);
}

function readEnvironment(flag: Flag, environment: NodeJS.ProcessEnv): Given | undefined {
  for (const source of [environmentName(flag), flag.env]) {
    const text = source === undefined ? undefined : environment[source];
    if (source === undefined || text === undefined || text === '') continue;
    return {
      source,
      values: flag.repeatable ? text.split(flag.separator ?? delimiter).filter((part) => part !== '') : [text],
    };
  }
  return undefined;
}

const TRUE = new Set(['true', 'on', '1']);
const FALSE = new Set(['false', 'off', '0']);

function readValue(flag: Flag, source: string, text: string): string | number | boolean {
  const value = parseValue(flag, source, text);
  if (flag.onlyDefault === undefined || value === flag.default) return value;
  const only = `${source} takes only ${String(flag.default)}, got "${text}"`;
  throw new InferError('INVALID_ARGUMENT', `${only}: ${flag.onlyDefault}`);
}

function parseValue(flag: Flag, source: string, text: string): string | number | boolean {
  if (flag.type === 'integer') return parseInteger(flag, source, text);
  if (flag.type === 'boolean') {
    const word = text.toLowerCase();
    if (TRUE.has(word)) return true;
    if (FALSE.has(word)) return false;
    throw new InferError('INVALID_ARGUMENT', `${source} expects true or false, got "${text}"`);
  }
  if (flag.choices && !flag.choices.includes(text)) {
    throw new InferError('INVALID_ARGUMENT', `${source} expects one of ${flag.choices.join(', ')}, got "${text}"`);
  }
  return text;
}

function parseInteger(flag: Flag, source: string, text: string): number {
  const value = /^-?\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
  const min = flag.min ?? 0;
  const max = flag.max ?? Number.MAX_SAFE_INTEGER;
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  const range = flag.max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  throw new InferError('INVALID_ARGUMENT', `${source} expects a whole number ${range}, got "${text}"`);
}
