// The worker of what one writes first.
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { BULL_QUEUE } from './lanes.mjs';

const connection = new Redis(process.argv[2], { maxRetriesPerRequest: null });
const worker = new Worker(BULL_QUEUE, ({ data }) => Promise.resolve(data.tensor), { connection, concurrency: 32 });
await worker.waitUntilReady();
process.stdout.write('ready\n');
