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
  const flags = Object.fromEntries(keys.map((key) => [key, FLAGS[key]]));
  const { values, positionals } = parseOptions(command, flags, args, environment);
  if (positionals[0] !== undefined) {
    throw new InferError('INVALID_ARGUMENT', `unexpected argument "${positionals[0]}" for millrace ${command}`);
  }
  return values as Settings<C>; // built key by key from the same catalogue that the type is derived from
}

export interface ParsedOptions {
  /** By the keys of the flags; defaults are filled in. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Arguments that are no options. */
  readonly positionals: readonly string[];
}

/** The same for any set of flags. `command` is for messages. */
export function parseOptions(
  command: string,
  flags: Readonly<Record<string, Flag>>,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): ParsedOptions {
  const { given, positionals } = readArguments(command, flags, args);
  const values: Record<string, unknown> = {};
  for (const [key, flag] of Object.entries(flags)) {
    const texts = given.get(key) ?? readEnvironment(flag, environment);
    if (texts === undefined) values[key] = flag.repeatable ? [] : flag.default;
    else if (flag.repeatable) values[key] = texts.values;
    else values[key] = readValue(flag, texts.source, texts.values.at(-1) ?? '');
  }
  return { values, positionals };
}

interface Given {
  /** What the person wrote, for error messages. */
  readonly source: string;
  readonly values: string[];
}

function readArguments(command: string, flags: Readonly<Record<string, Flag>>, args: readonly string[]) {
  const byName = new Map<string, { key: string; flag: Flag }>();
  for (const [key, flag] of Object.entries(flags)) {
    for (const name of [flag.name, ...(flag.aliases ?? [])]) byName.set(name, { key, flag });
  }
  const options = Object.fromEntries(
    [...byName].map(([name, { flag }]) => [
      name,
      { type: flag.type === 'boolean' ? ('boolean' as const) : ('string' as const), multiple: true },
    ]),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true, allowPositionals: true });
  const given = new Map<string, Given>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional') {
      positionals.push(token.value);
      continue;
    }
    const known = byName.get(token.name);
    if (known === undefined) throw unknownOption(command, token.rawName, token.name, byName.keys());
    const { key, flag } = known;
    const value = token.value ?? (flag.type === 'boolean' ? 'true' : undefined);
    if (value === undefined) {
      throw new InferError('INVALID_ARGUMENT', `${token.rawName} needs a value: ${token.rawName}=${flag.value}`);
    }
    const entry = given.get(key);
    if (entry) entry.values.push(value);
    else given.set(key, { source: token.rawName, values: [value] });
  }
  return { given, positionals };
}

function unknownOption(command: string, rawName: string, name: string, known: Iterable<string>): InferError {
  const suggestion = nearestName(name, [...known]);
  const hint = suggestion === undefined ? '' : `; did you mean --${suggestion}?`;
  const elsewhere = Object.values(FLAGS).some((flag: Flag) => flag.name === name);
  const what = elsewhere ? `${rawName} is not an option of millrace ${command}` : `unknown option ${rawName}`;
  return new InferError('INVALID_ARGUMENT', `${what}${hint} (millrace ${command} --help lists them)`);
}

function readEnvironment(flag: Flag, environment: NodeJS.ProcessEnv): Given | undefined {
  if (flag.commandLineOnly) return undefined;
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
