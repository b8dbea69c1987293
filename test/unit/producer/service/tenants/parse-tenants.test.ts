import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { parseTenants } from '../../../../../producer/service/tenants/parse-tenants.ts';

const hash = (key: string) => createHash('sha256').update(key).digest('hex');
const shop = { name: 'shop', key_sha256: [hash('a')] };

function problemOf(file: unknown): string {
  try {
    parseTenants(typeof file === 'string' ? file : JSON.stringify(file));
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('it was taken');
}

test('reads what a file says, and fills in what it leaves out', () => {
  const lab = {
    name: 'lab',
    key_sha256: [hash('b'), hash('c')],
    weight: 3,
    max_requests: 10,
    max_rows: 20,
    max_bytes: 30,
    requests_per_second: 2.5,
    burst: 7,
    models: ['simple'],
  };
  const [first, second] = parseTenants(JSON.stringify({ tenants: [shop, lab] }));
  expect(first).toEqual({
    name: 'shop',
    keyHashes: [hash('a')],
    party: { name: 'shop', weight: 1, max: { requests: 0, rows: 0, bytes: 0 }, intervalUs: 0, burst: 1 },
    maxJobs: 0,
    maxJobBytes: 0,
    models: undefined,
  });
  expect(second).toMatchObject({
    keyHashes: [hash('b'), hash('c')],
    party: { weight: 3, max: { requests: 10, rows: 20, bytes: 30 }, intervalUs: 400_000, burst: 7 },
    models: new Set(['simple']),
  });
});

test.each([
  ['no JSON', '{"tenants": [\n  oops]}', 'it is not JSON from line 2, column 3 on'],
  ['no list', {}, 'the file: expected an object with a list "tenants", got an object'],
  ['a list for the file', ['mr_secret'], 'the file: expected an object with a list "tenants", got a list'],
  ['a key for a tenant', { tenants: ['mr_secret'] }, 'tenants[0]: expected an object, got a text'],
  [
    'a key for a list of hashes',
    { tenants: [{ name: 'a', key_sha256: 'mr_secret' }] },
    'tenants[0].key_sha256: expected a list of at least one hash, as millrace api-key prints it, got a text',
  ],
  [
    'a key for a field',
    { tenants: [{ mr_secret_key_of_somebody: 1 }] },
    'tenants[0]: a field that is none of name, key_sha256, weight, max_requests, max_rows, max_bytes, requests_per_second, burst, max_jobs, max_job_bytes, models',
  ],
  ['a field of the file', { tenants: [], tenant: [] }, 'the file: unknown field "tenant"; did you mean "tenants"?'],
  ['no object', { tenants: [1] }, 'tenants[0]: expected an object, got a number'],
  [
    'no name',
    { tenants: [{ key_sha256: [] }] },
    'tenants[0].name: expected 1 to 64 letters, digits, "_", "." and "-", the first no sign, got nothing',
  ],
  [
    'no keys',
    { tenants: [{ name: 'a' }] },
    'tenants[0].key_sha256: expected a list of at least one hash, as millrace api-key prints it, got nothing',
  ],
  [
    'a key for its hash',
    { tenants: [{ name: 'a', key_sha256: ['mr_secret'] }] },
    'tenants[0].key_sha256[0]: expected a SHA-256 as 64 lower-case hex digits',
  ],
  [
    'a typing error',
    { tenants: [{ ...shop, wieght: 1 }] },
    'tenants[0]: unknown field "wieght"; did you mean "weight"?',
  ],
  [
    'weight 0',
    { tenants: [shop, { ...shop, weight: 0 }] },
    'tenants[1].weight: expected a whole number from 1 to 1000, got 0',
  ],
  [
    'a limit of 0',
    { tenants: [{ ...shop, max_rows: 0 }] },
    'tenants[0].max_rows: expected a whole number from 1 up, got 0',
  ],
  [
    'a rate of 0',
    { tenants: [{ ...shop, requests_per_second: 0 }] },
    'tenants[0].requests_per_second: expected a number from 0.001 to 1000000, got 0',
  ],
  ['a burst alone', { tenants: [{ ...shop, burst: 2 }] }, 'tenants[0].burst means nothing without requests_per_second'],
  [
    'models that are none',
    { tenants: [{ ...shop, models: [''] }] },
    'tenants[0].models[0]: expected the name of a model, got ""',
  ],
  ['a name twice', { tenants: [shop, { name: 'shop', key_sha256: [hash('z')] }] }, 'tenants: shop is listed twice'],
  ['a key twice', { tenants: [shop, { ...shop, name: 'lab' }] }, 'tenants: a key of lab belongs to shop too'],
])('says where and what is wrong: %s', (_, file, problem) => {
  expect(problemOf(file)).toBe(problem);
});
