import { describe, expect, it } from 'vitest';
import { parseCacheConfig } from '../../../../../producer/service/cache/cache-settings.ts';

describe('--cache-config', () => {
  it('is no cache when it is not given', () => {
    expect(parseCacheConfig([])).toBeUndefined();
  });

  it('reads a local cache', () => {
    expect(parseCacheConfig(['local,size=1048576'])).toEqual({ kind: 'local', maxBytes: 1_048_576 });
  });

  it('reads a Redis in one value or in several, as Triton has them', () => {
    const parts = ['host=cache', 'port=7000', 'user=me', 'password=s,e=c,r', 'db=2', 'ttl=60', 'max_entry_size=4096'];
    const settings = {
      kind: 'redis',
      connection: { host: 'cache', port: 7000, username: 'me', password: 's,e=c,r', db: 2 },
      ttlMs: 60_000,
      maxEntryBytes: 4096,
      timeoutMs: 100,
    };
    expect(parseCacheConfig([`redis,${parts.join(',')}`])).toEqual(settings);
    expect(parseCacheConfig(parts.map((part) => `redis,${part}`))).toEqual(settings);
  });

  it('takes the own Redis where there is one and no host is named', () => {
    expect(parseCacheConfig(['redis,ttl=5'], 'redis://queue:6379')).toMatchObject({
      connection: 'redis://queue:6379',
      ttlMs: 5000,
    });
  });

  it.each([
    [['disk,size=1'], /expected local,… or redis,…, got "disk"/],
    [['local'], /local needs its size in bytes/],
    [['local,size=many'], /size expects a whole number from 1024 .* got "many"/],
    [['local,size=10'], /from 1024/],
    [['local,sise=5000'], /local has no key "sise", .* did you mean size\?/],
    [['local,size=5000', 'local,size=6000'], /size is given twice/],
    [['local,size=5000', 'redis,host=a'], /one cache only/],
    [['redis,host'], /redis,host needs a value/],
    [['redis'], /redis needs a host/],
    [['redis,port=1'], /port needs a host/],
    [['redis,host=a,port=70000'], /port expects a whole number from 1 to 65535/],
  ])('refuses %j and says why', (texts, text) => {
    expect(() => parseCacheConfig(texts)).toThrow(text);
  });

  it('shows no part of a password', () => {
    expect(() => parseCacheConfig(['redis,host=a,password=very,secret=1,port=x'])).toThrow(/^(?!.*secret)/);
  });
});
