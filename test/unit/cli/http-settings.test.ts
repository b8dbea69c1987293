import { describe, expect, it } from 'vitest';
import { parseFlags } from '../../../cli/flags/parse-flags.ts';
import { httpSettingsOf } from '../../../cli/http-settings.ts';

const allowed = (...args: string[]): boolean => httpSettingsOf(parseFlags('serve', args, {})).allowClientShm;

describe('httpSettingsOf', () => {
  it('lets clients register shared memory while the server listens on loopback alone', () => {
    expect(allowed()).toBe(true);
    expect(allowed('--http-address=localhost')).toBe(true);
    expect(allowed('--http-address=0.0.0.0')).toBe(false);
    expect(allowed('--http-address=192.168.0.7')).toBe(false);
    expect(allowed('--grpc-address=0.0.0.0')).toBe(false);
    expect(allowed('--http-address=0.0.0.0', '--allow-http=false')).toBe(true);
  });

  it('does as it is told otherwise', () => {
    expect(allowed('--allow-client-shm=false')).toBe(false);
    expect(allowed('--allow-client-shm', '--http-address=0.0.0.0')).toBe(true);
  });
});
