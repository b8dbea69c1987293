// The worker of the lane by hand: takes up to 32 entries, answers each producer with one entry, acknowledges and removes.
import { Redis } from 'ioredis';
import { GROUP, STREAM } from './lanes.mjs';

const redis = new Redis(process.argv[2]);
const reader = new Redis(process.argv[2]);
await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM').catch(() => undefined);
process.stdout.write('ready\n');
for (;;) {
  const found = await reader.xreadgroupBuffer(
    'GROUP',
    GROUP,
    'w',
    'COUNT',
    '32',
    'BLOCK',
    '2000',
    'STREAMS',
    STREAM,
    '>',
  );
  const entries = found?.[0]?.[1] ?? [];
  if (entries.length === 0) continue;
  const answers = new Map();
  const ids = [];
  for (const [id, [, producer, , request, , tensor]] of entries) {
    const key = producer.toString();
    if (!answers.has(key)) answers.set(key, []);
    answers.get(key).push(request, tensor);
    ids.push(id);
  }
  const pipeline = redis.pipeline();
  for (const [key, fields] of answers) pipeline.xadd(key, 'MAXLEN', '~', 20_000, '*', ...fields).pexpire(key, 60_000);
  await pipeline.exec();
  void redis
    .pipeline()
    .xack(STREAM, GROUP, ...ids)
    .xdel(STREAM, ...ids)
    .exec();
}
