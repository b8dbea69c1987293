import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Ask, Refusal } from '../../../producer/service/limits/limits.ts';
import { MemoryLimits } from '../../../producer/service/limits/memory-limits.ts';
import { RedisLimits } from '../../../producer/service/limits/redis-limits.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { connectRedis, createRedis } from '../../../shared/runtime/redis.ts';
import { RedisLink } from '../../../shared/runtime/redis-link.ts';
import { LIMITS_KEY, LIMITS_PRODUCERS_KEY } from '../../../shared/wire/names.ts';
import { type RedisServer, startRedis, until } from '../../support/redis.ts';
import { askOf, modelOf, NONE, stepsArbitrary } from '../../unit/producer/service/limits/kit.ts';

let server: RedisServer;
let looker: ReturnType<RedisServer['client']>;
const closers: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startRedis();
  looker = server.client();
});
beforeEach(async () => {
  await looker.flushall();
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});
afterAll(() => server.stop());

async function open(nowUs?: () => number): Promise<RedisLimits> {
  const logger = silentLogger;
  const redis = createRedis({ url: server.url, name: 'test', silenceMs: 5000, logger });
  await connectRedis(redis);
  const link = new RedisLink(redis, logger);
  await link.start();
  const limits = new RedisLimits({ redis, link, logger, ...(nowUs ? { nowUs } : {}) });
  closers.push(async () => {
    await limits.close();
    link.close();
    redis.disconnect();
  });
  return limits;
}

/** What is in hand in all, as Redis counts it. */
async function inHand(): Promise<number> {
  return Number((await looker.hget(LIMITS_KEY, 't'))?.split(' ')[0] ?? 0);
}

test('decides as the memory of one process does, over random sequences', async () => {
  let nowUs = 0;
  const redis = await open(() => nowUs);
  await fc.assert(
    fc.asyncProperty(stepsArbitrary(), async (steps) => {
      await looker.flushall();
      nowUs += 100_000_000;
      const memory = new MemoryLimits({ now: () => nowUs / 1000 });
      const held: Ask[] = [];
      for (const step of steps) {
        if (step.kind === 'wait') {
          // Who leaves is told to Redis a moment later; what it knows of the speed is by when it was told.
          await until('all who left are counted out', async () => (await inHand()) === held.length);
          nowUs += step.us;
        } else if (step.kind === 'leave') {
          const [ask] = held.splice(step.pick % Math.max(1, held.length), 1);
          if (!ask) continue;
          memory.leave(ask);
          redis.leave(ask);
        } else {
          const ask = { ...step.ask };
          const [expected, given] = await Promise.all([memory.enter(ask), redis.enter(ask)]);
          expectSame(given, expected);
          if (!expected) held.push(ask);
        }
      }
      for (const ask of held) redis.leave(ask);
      await until('all has left', async () => (await inHand()) === 0);
    }),
    { numRuns: 60 },
  );
}, 120_000);

function expectSame(given: Refusal | undefined, expected: Refusal | undefined): void {
  const speed = expected?.perSecond;
  expect(given && { ...given, perSecond: undefined }).toEqual(expected && { ...expected, perSecond: undefined });
  if (speed === undefined) expect(given?.perSecond).toBeUndefined();
  else expect(given!.perSecond! / speed).toBeCloseTo(1, 5);
}

test('two producers with many at once are never above a limit together, and lose none of it', async () => {
  const producers = [await open(), await open()];
  const pool = { ...NONE, requests: 10 };
  let now = 0;
  let most = 0;
  let entered = 0;
  const client = async (limits: RedisLimits): Promise<void> => {
    for (let i = 0; i < 25; i++) {
      const ask = askOf({ pool });
      if (await limits.enter(ask)) continue;
      entered += 1;
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now -= 1;
      limits.leave(ask);
    }
  };
  await Promise.all(producers.flatMap((limits) => Array.from({ length: 40 }, () => client(limits))));
  expect(most).toBe(10);
  expect(entered).toBeGreaterThan(50);
  await until('all has left', async () => (await inHand()) === 0);
});

test('what comes in one turn takes one step in Redis', async () => {
  const limits = await open();
  await limits.enter(askOf({ pool: { ...NONE, requests: 1000 } }));
  const before = await callsOf('evalsha');
  const asks = Array.from({ length: 100 }, () => askOf({ pool: { ...NONE, requests: 1000 } }));
  await Promise.all(asks.map((ask) => limits.enter(ask)));
  expect((await callsOf('evalsha')) - before).toBe(1);
  expect(await inHand()).toBe(101);
});

async function callsOf(command: string): Promise<number> {
  const info = await looker.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0);
}

test('what a dead producer had in hand is taken back, and what it had is forgotten', async () => {
  let nowUs = 1e15;
  const dead = await open(() => nowUs);
  const alive = await open(() => nowUs);
  const pool = { ...NONE, requests: 3 };
  for (let i = 0; i < 3; i++) expect(await dead.enter(askOf({ pool }))).toBeUndefined();
  dead.pause();
  const refusal = await alive.enter(askOf({ pool }));
  expect(refusal).toMatchObject({ scope: 'pool', inHand: 3, limit: 3 });
  nowUs += 16_000_000;
  await until('the places are free', async () => (await inHand()) === 0);
  expect(await alive.enter(askOf({ pool }))).toBeUndefined();
});

test('a producer that stood still for too long counts again what it still has, and gives back each place once', async () => {
  let nowUs = 1e15;
  const slow = await open(() => nowUs);
  const other = await open(() => nowUs);
  const pool = { ...NONE, requests: 3 };
  const asks = [askOf({ pool }), askOf({ pool })];
  for (const ask of asks) await slow.enter(ask);
  slow.pause();
  await other.enter(askOf({ pool, model: modelOf('n') }));
  nowUs += 16_000_000;
  await until('it is taken for dead', async () => (await inHand()) === 1);
  // It wakes up: the third place is taken by its own two, which were never away.
  slow.leave(asks[0]!);
  const again = askOf({ pool });
  await slow.enter(again);
  await until('all of it is counted', async () => (await inHand()) === 3);
  for (const ask of [asks[1]!, again]) slow.leave(ask);
  await until('each was given back once', async () => (await inHand()) === 1);
});

test('a Redis that has lost everything counts again what is in hand', async () => {
  const limits = await open();
  const pool = { ...NONE, requests: 3 };
  const asks = [askOf({ pool }), askOf({ pool })];
  for (const ask of asks) await limits.enter(ask);
  await looker.flushall();
  const third = askOf({ pool });
  await limits.enter(third);
  await until('all three are counted', async () => (await inHand()) === 3);
  expect(await limits.enter(askOf({ pool }))).toMatchObject({ inHand: 3 });
  for (const ask of [...asks, third]) limits.leave(ask);
  await until('all has left', async () => (await inHand()) === 0);
});

test('a Redis that comes back with older counts neither loses nor keeps what came and went since', async () => {
  const own = await startRedis();
  try {
    const redis = createRedis({ url: own.url, name: 'test', silenceMs: 5000, logger: silentLogger });
    await connectRedis(redis);
    const link = new RedisLink(redis, silentLogger);
    await link.start();
    const limits = new RedisLimits({ redis, link, logger: silentLogger });
    const counted = async () => Number((await redis.hget(LIMITS_KEY, 't'))?.split(' ')[0] ?? 0);
    const pool = { ...NONE, requests: 4 };
    const [gone, kept, late] = [askOf({ pool }), askOf({ pool }), askOf({ pool })];
    for (const ask of [gone, kept]) expect(await limits.enter(ask)).toBeUndefined();
    await redis.save();
    limits.leave(gone);
    await until('it has left', async () => (await counted()) === 1);
    for (const ask of [late, askOf({ pool }), askOf({ pool })]) expect(await limits.enter(ask)).toBeUndefined();
    await own.kill();
    await until('it is seen', () => link.state.kind !== 'up');
    await own.start();
    await until('all four are counted again', async () => link.state.kind === 'up' && (await counted()) === 4);
    expect(await limits.enter(askOf({ pool }))).toMatchObject({ inHand: 4, limit: 4 });
    for (const ask of [kept, late]) limits.leave(ask);
    await until('two have left', async () => (await counted()) === 2);
    await limits.close();
    link.close();
    redis.disconnect();
  } finally {
    await own.stop();
  }
});

test('the counts of one producer outlive those of all, so that they can always be taken back', async () => {
  const dead = await open();
  await dead.enter(askOf({ pool: { ...NONE, requests: 5 } }));
  const [own] = (await looker.keys('*')).filter((key) => key !== LIMITS_KEY && key !== LIMITS_PRODUCERS_KEY);
  expect(await looker.pttl(own!)).toBeGreaterThan(await looker.pttl(LIMITS_KEY));
});

test('counts of a dead producer that belong to totals that are gone are not taken from those of others', async () => {
  let nowUs = 1e15;
  const dead = await open(() => nowUs);
  const alive = await open(() => nowUs);
  const pool = { ...NONE, requests: 5 };
  await dead.enter(askOf({ pool }));
  dead.pause();
  await looker.unlink(LIMITS_KEY); // as when it expires
  nowUs += 1;
  await alive.enter(askOf({ pool }));
  nowUs += 16_000_000;
  await until('the dead one is forgotten', async () => (await looker.zcard(LIMITS_PRODUCERS_KEY)) === 1);
  expect(await inHand()).toBe(1);
});

test('connections that break in the middle of a step count nobody twice', async () => {
  const limits = await open();
  const held: Ask[] = [];
  for (let round = 0; round < 20; round++) {
    const asks = Array.from({ length: 20 }, () => askOf({ pool: { ...NONE, requests: 1000 } }));
    const entering = asks.map((ask) => limits.enter(ask));
    await new Promise(setImmediate);
    await looker.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const results = await Promise.allSettled(entering);
    // Whoever was refused because Redis was away for a moment is not counted.
    held.push(...asks.filter((_, index) => results[index]!.status === 'fulfilled'));
  }
  expect(held.length).toBeGreaterThan(100);
  await until('each is counted once', async () => (await inHand()) === held.length);
  for (const ask of held) limits.leave(ask);
  await until('all has left', async () => (await inHand()) === 0);
});

test('while Redis is away nobody comes in', async () => {
  const own = await startRedis();
  try {
    const redis = createRedis({ url: own.url, name: 'test', silenceMs: 5000, logger: silentLogger });
    await connectRedis(redis);
    const link = new RedisLink(redis, silentLogger);
    await link.start();
    const limits = new RedisLimits({ redis, link, logger: silentLogger });
    const ask = askOf({ pool: { ...NONE, requests: 5 } });
    expect(await limits.enter(ask)).toBeUndefined();
    await own.kill();
    // Whether it comes before or after the break was seen: it is refused, and does not wait for ever.
    await expect(limits.enter(askOf({ pool: { ...NONE, requests: 5 } }))).rejects.toMatchObject({
      code: 'UNAVAILABLE',
    });
    await own.start();
    await until('it is up again', () => link.state.kind === 'up');
    expect(await limits.enter(askOf({ pool: { ...NONE, requests: 5 } }))).toBeUndefined();
    await limits.close();
    link.close();
    redis.disconnect();
  } finally {
    await own.stop();
  }
});

test('when all producers have gone nothing is left', async () => {
  const producers = [await open(), await open()];
  for (const limits of producers) await limits.enter(askOf({ pool: { ...NONE, requests: 5 } }));
  expect(await looker.zcard(LIMITS_PRODUCERS_KEY)).toBe(2);
  for (const key of await looker.keys('*')) expect(await looker.pttl(key)).toBeGreaterThan(0);
  for (const limits of producers) await limits.close();
  expect(await looker.keys('*')).toEqual([]);
});
