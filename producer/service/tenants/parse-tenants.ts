import { InferError } from '../../../shared/errors.ts';
import { MAX_WEIGHT } from '../../../shared/model/queue-parameters.ts';
import { nearestName } from '../../../shared/nearest-name.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { isSha256 } from '../../../shared/wire/names.ts';
import { isRecord } from '../../../shared/wire/record.ts';
import { MAX_TENANTS, type Tenant } from './tenant.ts';

const FIELDS = [
  'name',
  'key_sha256',
  'weight',
  'max_requests',
  'max_rows',
  'max_bytes',
  'requests_per_second',
  'burst',
  'max_jobs',
  'max_job_bytes',
  'models',
] as const;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const MAX_RATE = 1_000_000;
const MIN_RATE = 0.001;

/**
 * The tenants of a keys file.
 * @throws InferError INVALID_ARGUMENT with the place and what was expected there; no hash is in any message
 */
export function parseTenants(text: string): Tenant[] {
  const json = parseJson(text);
  if (!isRecord(json) || !Array.isArray(json.tenants))
    throw wrongKind('the file', 'an object with a list "tenants"', json);
  for (const key of Object.keys(json)) if (key !== 'tenants') throw unknownField('the file', key, ['tenants']);
  const list: unknown[] = json.tenants;
  if (list.length > MAX_TENANTS) throw wrong('tenants', `at most ${MAX_TENANTS}`, list.length);
  const tenants = list.map((entry, index) => parseTenant(entry, `tenants[${index}]`));
  assertDifferent(tenants);
  return tenants;
}

function parseTenant(entry: unknown, where: string): Tenant {
  if (!isRecord(entry)) throw wrongKind(where, 'an object', entry);
  for (const key of Object.keys(entry)) {
    if (!(FIELDS as readonly string[]).includes(key)) throw unknownField(where, key, FIELDS);
  }
  const { name } = entry;
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw wrong(`${where}.name`, '1 to 64 letters, digits, "_", "." and "-", the first no sign', name);
  }
  const wholeOf = (field: string, preset: number, max = Number.MAX_SAFE_INTEGER) =>
    wholeNumber(entry[field] ?? preset, preset === 0 && entry[field] === undefined ? 0 : 1, max, `${where}.${field}`);
  const rate = rateOf(entry.requests_per_second, `${where}.requests_per_second`);
  if (rate === 0 && entry.burst !== undefined) {
    throw new InferError('INVALID_ARGUMENT', `${where}.burst means nothing without requests_per_second`);
  }
  return {
    name,
    keyHashes: hashesOf(entry.key_sha256, `${where}.key_sha256`),
    party: {
      name,
      weight: wholeOf('weight', 1, MAX_WEIGHT),
      max: { requests: wholeOf('max_requests', 0), rows: wholeOf('max_rows', 0), bytes: wholeOf('max_bytes', 0) },
      intervalUs: rate === 0 ? 0 : Math.max(1, Math.floor(1_000_000 / rate)),
      burst: wholeOf('burst', Math.max(1, Math.round(rate)), MAX_RATE),
    },
    maxJobs: wholeOf('max_jobs', 0),
    maxJobBytes: wholeOf('max_job_bytes', 0),
    models: modelsOf(entry.models, `${where}.models`),
  };
}

function hashesOf(value: unknown, where: string): string[] {
  const hashes: unknown[] = Array.isArray(value) ? value : [];
  if (hashes.length === 0) throw wrongKind(where, 'a list of at least one hash, as millrace api-key prints it', value);
  hashes.forEach((hash, index) => {
    // Perhaps the key itself: it is not shown.
    if (!isSha256(hash))
      throw new InferError('INVALID_ARGUMENT', `${where}[${index}]: expected a SHA-256 as 64 lower-case hex digits`);
  });
  return hashes as string[]; // every one of them is
}

function modelsOf(value: unknown, where: string): ReadonlySet<string> | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) throw wrong(where, 'a list of model names', value);
  value.forEach((name: unknown, index) => {
    if (typeof name !== 'string' || name === '') throw wrong(`${where}[${index}]`, 'the name of a model', name);
  });
  return new Set(value as string[]); // every one of them is
}

function rateOf(value: unknown, where: string): number {
  if (value === undefined) return 0;
  if (typeof value === 'number' && value >= MIN_RATE && value <= MAX_RATE) return value;
  throw wrong(where, `a number from ${MIN_RATE} to ${MAX_RATE}`, value);
}

function wholeNumber(value: unknown, min: number, max: number, where: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  const range = max === Number.MAX_SAFE_INTEGER ? `from ${min} up` : `from ${min} to ${max}`;
  throw wrong(where, `a whole number ${range}`, value);
}

function assertDifferent(tenants: readonly Tenant[]): void {
  const names = new Set<string>();
  const hashes = new Map<string, string>();
  for (const { name, keyHashes } of tenants) {
    if (names.has(name)) throw new InferError('INVALID_ARGUMENT', `tenants: ${name} is listed twice`);
    names.add(name);
    for (const hash of keyHashes) {
      const other = hashes.get(hash);
      if (other !== undefined)
        throw new InferError('INVALID_ARGUMENT', `tenants: a key of ${name} belongs to ${other} too`);
      hashes.set(hash, name);
    }
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // Not the parser's own words: they show a piece of the file.
    throw new InferError('INVALID_ARGUMENT', `it is not JSON from ${placeOf(text, stopOf(text))} on`, { cause });
  }
}

/** Where the parser stops: it does not say so of short texts, but it stops at the same place of each longer beginning. */
function stopOf(text: string): number {
  const position = /position (\d+)/.exec(jsonProblemOf(text))?.[1];
  if (position !== undefined) return Number(position);
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (jsonProblemOf(text.slice(0, middle + 1)).startsWith('Unexpected token')) high = middle;
    else low = middle + 1;
  }
  return low;
}

function jsonProblemOf(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
}

function placeOf(text: string, position: number): string {
  const before = text.slice(0, position).split('\n');
  return `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`;
}

function unknownField(where: string, key: string, known: readonly string[]): InferError {
  const nearest = nearestName(key, known);
  // Perhaps a key, where no field is like it: it is not shown.
  const text =
    nearest === undefined
      ? `a field that is none of ${known.join(', ')}`
      : `unknown field "${shownText(key)}"; did you mean "${nearest}"?`;
  return new InferError('INVALID_ARGUMENT', `${where}: ${text}`);
}

/** For a value that may be a key or a hash, or hold one: says what it is and nothing of it. */
function wrongKind(where: string, expected: string, given: unknown): InferError {
  const kind = given === undefined ? 'nothing' : Array.isArray(given) ? 'a list' : (KINDS[typeof given] ?? 'nothing');
  return new InferError('INVALID_ARGUMENT', `${where}: expected ${expected}, got ${kind}`);
}

const KINDS: Partial<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
};

function wrong(where: string, expected: string, given: unknown): InferError {
  const shown = given === undefined ? 'nothing' : shownText(JSON.stringify(given));
  return new InferError('INVALID_ARGUMENT', `${where}: expected ${expected}, got ${shown}`);
}
