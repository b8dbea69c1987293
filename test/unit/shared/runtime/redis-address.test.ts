import { describe, expect, it } from 'vitest';
import { redisOptionsOf } from '../../../../shared/runtime/redis-address.ts';

describe('an address of Redis', () => {
  it.each([
    ['redis://cache', { host: 'cache', port: 6379, db: 0 }],
    ['redis://127.0.0.1:7000/3', { host: '127.0.0.1', port: 7000, db: 3 }],
    ['redis://[::1]:7000', { host: '::1', port: 7000, db: 0 }],
    ['redis://:p%40ss@cache', { host: 'cache', port: 6379, db: 0, password: 'p@ss' }],
    ['redis://me:a:b@cache/', { host: 'cache', port: 6379, db: 0, username: 'me', password: 'a:b' }],
    ['rediss://cache', { host: 'cache', port: 6379, db: 0, tls: { servername: 'cache' } }],
    ['rediss://10.0.0.1', { host: '10.0.0.1', port: 6379, db: 0, tls: {} }],
  ])('of one server: %s', (address, options) => {
    expect(redisOptionsOf(address)).toEqual(options);
  });

  it('of sentinels names the master and keeps their password apart', () => {
    expect(redisOptionsOf('rediss-sentinel://me:pw@a,b:7001/main/2?sentinelPassword=other')).toMatchObject({
      username: 'me',
      password: 'pw',
      db: 2,
      name: 'main',
      sentinels: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 7001 },
      ],
      sentinelPassword: 'other',
      enableTLSForSentinelMode: true,
      tls: { servername: 'a' },
    });
    expect(redisOptionsOf('redis-sentinel://:pw@a/main')).not.toHaveProperty('sentinelPassword');
  });

  it('of a cluster asks its nodes', () => {
    const options = redisOptionsOf('redis-cluster://:pw@a,b:7001');
    expect(options).toMatchObject({ host: 'a', port: 6379, password: 'pw' });
    expect(options.Connector).toBeTypeOf('function');
  });

  it.each([
    '',
    'cache:6379',
    'http://cache',
    'redis://',
    'redis://cache:0',
    'redis://cache:70000',
    'redis://a,b',
    'redis://cache/one',
    'redis://cache/1/2',
    'redis://cache?db=1',
    'redis://%zz@cache',
    'redis-sentinel://a,b',
    'redis-sentinel://a/main/x',
    'redis-sentinel://a/main?user=x',
    'redis-cluster://a/1',
  ])('that is none is refused without being repeated: %j', (address) => {
    expect(() => redisOptionsOf(address)).toThrow(/^the Redis address must look like redis:\/\/\[user:password@\]host/);
  });
});
