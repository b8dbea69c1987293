// The ways to get a request to a worker and its answer back that are compared: each gives `send(tensor, model)`, which
// resolves with the answer, and `close`. Only that of Millrace knows another model than MODEL.
import { createQueueDispatcher } from '../../dist/producer/dispatch/queue-dispatcher.js';
import { Call } from '../../dist/shared/infer/call.js';
import { Queue, QueueEvents } from 'bullmq';
import { Redis } from 'ioredis';
import { TOKENS } from './tokens.mjs';

export const MODEL = 'identity';
export const STREAM = 'bench:requests';
export const GROUP = 'workers';
export const BULL_QUEUE = 'bench-requests';

const silent = { debug() {}, info() {}, warn() {}, error: console.error };
const TIMEOUT_MS = 60_000;

export const lanes = { millrace, stream, bullmq, setGet };

/** The dispatcher of the producer, without HTTP. */
async function millrace(redisUrl, models) {
  const dispatcher = await createQueueDispatcher({ redisUrl, logger: silent });
  const isReady = (model) => dispatcher.catalog.list().some(({ name, state }) => name === model && state === 'READY');
  while (!models.every(isReady)) await sleep(50);
  let count = 0;
  return {
    async send(tensor, model) {
      const nowMs = performance.now();
      const call = new Call(`b${(count += 1)}`, nowMs, nowMs + TIMEOUT_MS);
      const inputs = model === MODEL ? [fp32(tensor)] : TOKENS;
      const request = { id: '', model, version: '', inputs, outputs: [], parameters: {} };
      return (await dispatcher.infer(request, call)).outputs[0].data;
    },
    close: () => dispatcher.close(0),
  };
}

/** Redis streams by hand: one entry a request, answers on a stream of the producer, one entry for all of a batch. */
async function stream(redisUrl) {
  const redis = new Redis(redisUrl);
  const reader = new Redis(redisUrl);
  const replies = `bench:replies:${process.pid}`;
  const waiting = new Map();
  let count = 0;
  let pipeline;
  let open = true;
  void read();
  return {
    send(tensor) {
      return new Promise((resolve) => {
        const id = String((count += 1));
        waiting.set(id, resolve);
        if (!pipeline) {
          pipeline = redis.pipeline();
          setImmediate(flush);
        }
        pipeline.xadd(STREAM, '*', 'p', replies, 'c', id, 'd', tensor);
      });
    },
    close() {
      open = false;
      redis.disconnect();
      reader.disconnect();
    },
  };

  function flush() {
    void pipeline.exec();
    pipeline = undefined;
  }

  async function read() {
    let last = '0-0';
    let untrimmed = 0;
    while (open) {
      const found = await reader.xreadBuffer('COUNT', 200, 'BLOCK', 2000, 'STREAMS', replies, last).catch(() => null);
      for (const [id, fields] of found?.[0]?.[1] ?? []) {
        last = id.toString();
        for (let i = 0; i < fields.length; i += 2) {
          const key = fields[i].toString();
          waiting.get(key)?.(fields[i + 1]);
          waiting.delete(key);
        }
      }
      if ((untrimmed += 1) % 100 === 0) void redis.xtrim(replies, 'MINID', last).catch(() => undefined);
    }
  }
}

/** What one writes first: a job a request, and `waitUntilFinished`. */
async function bullmq(redisUrl) {
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const queue = new Queue(BULL_QUEUE, { connection });
  const events = new QueueEvents(BULL_QUEUE, { connection: connection.duplicate() });
  events.setMaxListeners(0);
  queue.setMaxListeners(0);
  await events.waitUntilReady();
  return {
    async send(tensor) {
      const options = { removeOnComplete: 1000 };
      const job = await queue.add('infer', { tensor: tensor.toString('base64') }, options);
      return Buffer.from(await job.waitUntilFinished(events, TIMEOUT_MS), 'base64');
    },
    async close() {
      await events.close();
      await queue.close();
      connection.disconnect();
    },
  };
}

/** The bytes alone: written, read and removed, there and back, with no queue between. */
async function setGet(redisUrl) {
  const writer = new Redis(redisUrl);
  const reader = new Redis(redisUrl);
  let count = 0;
  return {
    async send(tensor) {
      return move(reader, await move(writer, tensor, reader), writer);
    },
    close() {
      writer.disconnect();
      reader.disconnect();
    },
  };

  async function move(from, bytes, to) {
    const key = `bench:tensor:${(count += 1)}`;
    await from.set(key, bytes, 'PX', TIMEOUT_MS);
    const read = await to.getBuffer(key);
    void to.unlink(key);
    return read;
  }
}

const fp32 = (data) => ({ name: 'INPUT', datatype: 'FP32', shape: [1, data.byteLength / 4], data });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
