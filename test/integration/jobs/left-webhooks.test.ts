import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeEnd } from '../../../cli/protocols.ts';
import { RedisWebhooks } from '../../../producer/service/webhooks/redis-webhooks.ts';
import type { WebhookSender } from '../../../producer/service/webhooks/webhook-sender.ts';
import { createJobId } from '../../../shared/jobs/job.ts';
import { signedEnd, signedSubmission } from '../../../shared/jobs/signed-record.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { WEBHOOKS_KEY } from '../../../shared/wire/names.ts';
import { parseQueueKeys, QueueKeys } from '../../../shared/wire/queue-keys.ts';
import { type RedisServer, startRedis, until } from '../../support/redis.ts';

const KEYS = parseQueueKeys(`one ${Buffer.alloc(32, 1).toString('base64')}`);

describe.each([
  ['without keys', undefined],
  ['with keys', new QueueKeys(KEYS)],
])('webhooks left in Redis, %s', (_, keys) => {
  let server: RedisServer;
  let webhooks: RedisWebhooks;
  const sent: { readonly id: string; readonly body: string }[] = [];

  beforeEach(async () => {
    server = await startRedis();
    sent.length = 0;
    const store = { read: () => Promise.resolve(undefined), noteWebhook: () => Promise.resolve() };
    const sender = {
      send: ({ id, body }: { id: string; body: string }) => {
        sent.push({ id, body });
        return Promise.resolve({ kind: 'delivered' });
      },
    };
    webhooks = new RedisWebhooks({
      redisUrl: server.url,
      store: store, // what is asked of it
      sender: sender as unknown as WebhookSender, // likewise
      encode: encodeEnd,
      keys,
      logger: silentLogger,
    });
  });
  afterEach(async () => {
    await webhooks.close(0);
    await server.stop();
  });

  /** As the script leaves it: names and values in turn. */
  const leave = (id: string, fields: Readonly<Record<string, string | number>>, state: 'running' | 'succeeded') => {
    const signed: Record<string, string | number> = {
      ...fields,
      ...(keys && signedSubmission(keys, id, fields)),
      state,
      ...(keys && state === 'succeeded' && signedEnd(keys, id, { state })),
    };
    const list = Object.entries(signed).flatMap(([name, value]) => [name, String(value)]);
    return server.client().hset(WEBHOOKS_KEY, id, JSON.stringify(list));
  };
  const record = { model: 'm', keep: 60_000, webhook: 'http://example.test/done' };

  it('are sent for jobs that are over, whatever else lies beside them', async () => {
    const [open, odd, plain] = [createJobId(1), createJobId(2), createJobId(3)];
    const redis = server.client();
    await redis.hset(WEBHOOKS_KEY, 'broken', 'no JSON');
    await leave(open, record, 'running');
    await leave(odd, { ...record, created: 1e300 }, 'succeeded');
    await leave(plain, record, 'succeeded');
    await webhooks.start();
    await until('all are looked at', async () => (await redis.hlen(WEBHOOKS_KEY)) === 0 && sent.length >= 2);
    expect(sent.map(({ id }) => id).sort()).toEqual([odd, plain].sort());
    expect(JSON.parse(sent.find(({ id }) => id === plain)!.body)).toMatchObject({ id: plain, state: 'succeeded' });
  });

  it('end with Redis when it goes away in the middle', async () => {
    await webhooks.start();
    await server.stop();
    await webhooks.close(0);
  });
});
