import { InferError } from '../../shared/errors.ts';
import { nearestName } from '../../shared/nearest-name.ts';
import { shownText } from '../../shared/tensor/text.ts';
import { sameText } from './same-text.ts';

/** The groups of calls that can be kept for those who know a header, in Triton's words; the same for both protocols. */
export const API_CATEGORIES = [
  'health',
  'metadata',
  'model-config',
  'inference',
  'statistics',
  'model-repository',
  'trace',
  'logging',
  'shared-memory',
  'pool',
] as const;

export type ApiCategory = (typeof API_CATEGORIES)[number];

/** The header that opens a category. */
interface Secret {
  /** Lower case, as headers and metadata are looked up. */
  readonly key: string;
  readonly value: string;
}

/** Which categories need which header. */
export class Restrictions {
  readonly #secrets: ReadonlyMap<ApiCategory, Secret>;

  constructor(secrets: ReadonlyMap<ApiCategory, Secret>) {
    this.#secrets = secrets;
  }

  /** The name of the header that a category needs, in lower case; undefined when it is open to all. */
  keyOf(category: ApiCategory): string | undefined {
    return this.#secrets.get(category)?.key;
  }

  /** @param headerValueOf the value of a header that the client sent, by its name in lower case */
  allows(category: ApiCategory, headerValueOf: (key: string) => string | undefined): boolean {
    const secret = this.#secrets.get(category);
    if (secret === undefined) return true;
    const given = headerValueOf(secret.key);
    return given !== undefined && sameText(given, secret.value);
  }
}

export const NO_RESTRICTIONS = new Restrictions(new Map());

const KEY = /^[\w.-]+$/;
/** Printable ASCII without spaces at its ends, which is what arrives unchanged. */
const VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * The values of `--http-restricted-api` or `--grpc-restricted-protocol`: `category,category:header=value` each.
 * @param option for messages, as the person writes it
 * @throws InferError INVALID_ARGUMENT; the header's value is in no message.
 */
export function parseRestrictions(option: string, texts: readonly string[]): Restrictions {
  const secrets = new Map<ApiCategory, Secret>();
  for (const text of texts) {
    const colon = text.indexOf(':');
    if (colon < 0) throw malformed(option, 'has no ":" behind the categories');
    const secret = parseSecret(option, text.slice(colon + 1));
    for (const name of text.slice(0, colon).split(',')) {
      const category = parseCategory(option, name.trim());
      if (secrets.has(category)) {
        throw new InferError('INVALID_ARGUMENT', `${option}: ${category} is given twice, it can have one header only`);
      }
      secrets.set(category, secret);
    }
  }
  return new Restrictions(secrets);
}

function parseSecret(option: string, text: string): Secret {
  const equals = text.indexOf('=');
  if (equals < 0) throw malformed(option, 'has no "=" between header and value');
  const key = text.slice(0, equals);
  const value = text.slice(equals + 1);
  if (!KEY.test(key)) {
    throw malformed(option, `needs a header of letters, digits, ".", "_" and "-", got "${shownText(key)}"`);
  }
  if (value === '') throw malformed(option, `has no value for header ${shownText(key)}`);
  if (!VALUE.test(value)) {
    throw malformed(
      option,
      `has a value for header ${shownText(key)} that is not printable ASCII without outer spaces`,
    );
  }
  return { key: key.toLowerCase(), value };
}

function parseCategory(option: string, name: string): ApiCategory {
  const category = API_CATEGORIES.find((known) => known === name);
  if (category !== undefined) return category;
  const suggestion = nearestName(name, API_CATEGORIES);
  const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
  throw new InferError(
    'INVALID_ARGUMENT',
    `${option}: unknown category "${shownText(name)}", expected one of ${API_CATEGORIES.join(', ')}${hint}`,
  );
}

function malformed(option: string, problem: string): InferError {
  return new InferError('INVALID_ARGUMENT', `${option} ${problem}; expected category,category:header=value`);
}
