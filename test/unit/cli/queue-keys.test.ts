import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { queueKeysOf } from '../../../cli/queue-keys.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { until } from '../../support/redis.ts';

const keyOf = (id: string) => `${id} ${Buffer.alloc(32, id.charCodeAt(0)).toString('base64')}\n`;

describe('--queue-key-file', () => {
  const lines: string[] = [];
  const log = (_: object, message: string) => void lines.push(message);
  const logger = { debug: log, info: log, warn: log, error: log } as unknown as Logger; // what is used of it
  let path = '';
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-queue-keys-'));
    path = join(folder, 'keys');
  });
  afterAll(() => rmSync(folder, { recursive: true }));
  const open = (queueAcceptUnsigned = false) => queueKeysOf({ queueKeyFile: path, queueAcceptUnsigned }, logger);

  it('that is missing or wrong is one clear line', () => {
    expect(() => open()).toThrow('--queue-key-file: the file cannot be read');
    writeFileSync(path, 'one word too many');
    expect(() => open()).toThrow(/^--queue-key-file: line 1 is not of the right form, expected/);
  });

  it('is followed while the process runs; a wrong one changes nothing', async () => {
    writeFileSync(path, keyOf('a'));
    const keys = open();
    const signer = () => keys?.sign('job', 'm', 'text').key;
    expect(signer()).toBe('a');
    writeFileSync(path, keyOf('b') + keyOf('a'));
    await until('the new key signs', () => signer() === 'b');
    writeFileSync(path, 'oops');
    await until('it is said', () => lines.includes('queue keys not read, those before stay in force'));
    expect(signer()).toBe('b');
    expect(lines[0]).toBe('queue keys read again');
  });

  it('is needed by --queue-accept-unsigned', () => {
    const none = { queueKeyFile: undefined, queueAcceptUnsigned: true };
    expect(() => queueKeysOf(none, logger)).toThrow('--queue-accept-unsigned goes with --queue-key-file');
    expect(queueKeysOf({ ...none, queueAcceptUnsigned: false }, logger)).toBeUndefined();
  });
});
