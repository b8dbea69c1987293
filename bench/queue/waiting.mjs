// What an add takes while so many jobs wait, beside an empty queue. Both queues lie in one Redis and are asked by turns.
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { JOB_NAME } from '../../dist/shared/wire/queue-options.js';

const CHUNK = 5000;
const TURNS = 20;
const ADDS = 200;

export async function measureWaiting(redisUrl, jobs) {
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const full = new Queue('full', { connection });
  const empty = new Queue('empty', { connection });
  const data = { text: 'x'.repeat(200) };
  const many = Array.from({ length: CHUNK }, () => ({ name: JOB_NAME, data }));
  for (let count = 0; count < jobs; count += CHUNK) await full.addBulk(many);
  const turns = { full: [], empty: [] };
  for (let turn = 0; turn < TURNS; turn++) {
    turns.full.push(await msPerAdd(full, data));
    turns.empty.push(await msPerAdd(empty, data));
    await empty.drain();
  }
  const waiting = await full.getWaitingCount();
  await full.close();
  await empty.close();
  connection.disconnect();
  const [fullMs, emptyMs] = [median(turns.full), median(turns.empty)];
  return { waiting, fullMs: round(fullMs), emptyMs: round(emptyMs), ratio: round(fullMs / emptyMs) };
}

async function msPerAdd(queue, data) {
  const startedMs = performance.now();
  for (let i = 0; i < ADDS; i++) await queue.add(JOB_NAME, data);
  return (performance.now() - startedMs) / ADDS;
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const round = (value) => Math.round(value * 1000) / 1000;
