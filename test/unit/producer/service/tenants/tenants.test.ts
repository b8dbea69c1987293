import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TenantsFile } from '../../../../../producer/service/tenants/tenants-file.ts';
import { withTenant } from '../../../../../producer/service/tenants/with-tenant.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../../shared/infer/response.ts';
import type { Logger } from '../../../../../shared/runtime/logger.ts';
import { tenantsOf } from '../../../../support/tenants.ts';

describe('tenants', () => {
  test('have their share of a number by their weights, one at least, whatever others use', () => {
    const weighted = tenantsOf({ big: { key: '1', weight: 5 }, small: { key: '2' }, tiny: { key: '3' } });
    expect(['big', 'small', 'tiny', 'gone'].map((name) => weighted.shareOf(name, 10))).toEqual([7, 1, 1, 1]);
    expect(weighted.shareOf('tiny', 2)).toBe(1);
    expect(['big', 'tiny'].map((name) => [weighted.jobsOf(name, 10), weighted.jobBytesOf(name)])).toEqual([
      [7, 0],
      [1, 0],
    ]);
    const own = tenantsOf({ one: { key: '1', max_jobs: 3, max_job_bytes: 9 }, two: { key: '2', max_jobs: 99 } });
    expect([own.jobsOf('one', 10), own.jobsOf('two', 10), own.jobBytesOf('one')]).toEqual([3, 10, 9]);
    expect(tenantsOf({ one: { key: '1', weight: 3 } }).shareOf('one', 10_000)).toBe(10_000);
  });

  const tenants = tenantsOf({ shop: { key: 'k1', models: ['m'] }, lab: { key: 'k2' } });
  const identify = (headers: Record<string, string>) => tenants.identify((name) => headers[name]);

  test.each([
    [{ authorization: 'Bearer k1' }, 'shop'],
    [{ authorization: 'bearer  k2' }, 'lab'],
    [{ 'x-api-key': 'k2' }, 'lab'],
    [{ authorization: 'Basic abc', 'x-api-key': 'k1' }, 'shop'],
  ])('are known by their keys: %j', (headers, name) => {
    expect(identify(headers as Record<string, string>)).toBe(name);
  });

  test.each([
    [{}],
    [{ authorization: 'Bearer ' }],
    [{ authorization: 'k1' }],
    [{ 'x-api-key': '' }],
    [{ 'x-api-key': 'K1' }],
  ])('are not known by anything else: %j', (headers) => {
    expect(() => identify(headers as Record<string, string>)).toThrow(/API key/);
  });

  test('reach the models of their list alone, and their requests are counted', async () => {
    const outcomes = [
      () => Promise.resolve({} as InferResponse),
      () => Promise.reject(new InferError('RESOURCE_EXHAUSTED', 'full')),
      () => Promise.reject(new InferError('INTERNAL', 'broken')),
    ];
    const infer = withTenant(tenants, () => outcomes.shift()!());
    await infer(requestOf('m'), callOf('shop'));
    await expect(infer(requestOf('m'), callOf('shop'))).rejects.toThrow('full');
    await expect(infer(requestOf('m'), callOf('shop'))).rejects.toThrow('broken');
    await expect(infer(requestOf('other'), callOf('shop'))).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
    await expect(infer(requestOf('m'), callOf('gone'))).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    expect(tenants.counts()).toEqual(
      new Map([
        ['shop', { admitted: 2, refused: 2 }],
        ['lab', { admitted: 0, refused: 0 }],
      ]),
    );
  });

  test('whose key was taken away while a request was on its way have it counted as refused', async () => {
    const one = tenantsOf({ shop: { key: 'k' } });
    const infer = withTenant(one, () => Promise.reject(new InferError('UNAUTHENTICATED', 'gone')));
    await expect(infer(requestOf('m'), callOf('shop'))).rejects.toThrow('gone');
    expect(one.counts().get('shop')).toEqual({ admitted: 0, refused: 1 });
  });
});

describe('a keys file', () => {
  const lines: string[] = [];
  const log = (_: object, message: string) => void lines.push(message);
  const logger = { debug: log, info: log, warn: log, error: log } as unknown as Logger; // what is used of it
  let folder = '';
  let path = '';
  const write = (key: string) =>
    writeFileSync(
      path,
      JSON.stringify({ tenants: [{ name: 'a', key_sha256: [createHash('sha256').update(key).digest('hex')] }] }),
    );

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-keys-'));
    path = join(folder, 'keys.json');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('that is missing or wrong at start is one clear line without its path', () => {
    expect(() => new TenantsFile(path)).toThrow('--api-keys-file: the file cannot be read');
    writeFileSync(path, '{"tenants": [{"name": "a"}]}');
    expect(() => new TenantsFile(path)).toThrow(/^--api-keys-file: tenants\[0\]\.key_sha256: expected/);
  });

  test('is read again when it changes; a wrong one changes nothing and is told once', async () => {
    write('one');
    const file = new TenantsFile(path);
    const opens = (key: string) => {
      try {
        return file.tenants.identify((name) => (name === 'x-api-key' ? key : undefined));
      } catch {
        return undefined;
      }
    };
    expect([opens('one'), opens('two')]).toEqual(['a', undefined]);
    write('two');
    await file.look(logger);
    expect([opens('one'), opens('two')]).toEqual([undefined, 'a']);
    writeFileSync(path, 'oops');
    await file.look(logger);
    await file.look(logger);
    expect(opens('two')).toBe('a');
    rmSync(path);
    await file.look(logger);
    expect(opens('two')).toBe('a');
    write('three');
    await file.look(logger);
    expect(opens('three')).toBe('a');
    for (let round = 0; round < 2; round++) {
      writeFileSync(path, 'oops');
      await file.look(logger);
      write('three');
      await file.look(logger);
    }
    const refused = 'api keys not read, those before stay in force';
    expect(lines).toEqual(['api keys read again', refused, refused, 'api keys read again', refused, refused]);
  });
});

function requestOf(model: string): InferRequest {
  return { id: '', model, version: '', inputs: [], outputs: [], parameters: NO_PARAMETERS };
}

function callOf(tenant: string): Call {
  const call = new Call('c', 0, Infinity);
  call.tenant = tenant;
  return call;
}
