import { readFile } from 'node:fs/promises';
import sharp, { type SharpOptions } from 'sharp';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

const USERS = 100;
const PHOTO_BYTES = 5 * 1024 * 1024;
const MODEL = 'efficientnet_lite0_int8';
/** What each process may hold. The kernel's own record of the highest use is compared, so no moment is missed. */
const LIMIT_MIB = 1024;
/** As docs/limits.md says for a producer of 1 GiB. */
const LIMITS = [`--max-inflight-bytes=${256 * 1024 * 1024}`];
const PATIENCE_MS = 150_000;

let redis: RedisServer;
let producer: MillraceProcess;
let worker: MillraceProcess;
let photo: Buffer;

beforeAll(async () => {
  photo = await makePhoto();
  redis = await startRedis();
  // As in a container of 1 GiB; without one, the heap at least is held to less than that.
  const env = { REDIS_URL: redis.url, NODE_OPTIONS: '--max-old-space-size=512' };
  worker = await startMillrace(['worker', `--model-repository=${ROOT}/examples/models`, '--log-info=false'], { env });
  producer = await startMillrace(['producer', ...LIMITS, '--log-info=false'], { env });
  await until('the producer is ready', async () => (await fetch(`${producer.url}/v2/health/ready`)).ok);
});
afterAll(async () => {
  await Promise.all([producer, worker].map((process) => process.stop('SIGKILL')));
  await redis.stop();
});

interface Visit {
  readonly refusals: number;
  readonly label: string;
}

test(`${USERS} users with photos of 5 MB at once are all answered, those who were refused when they come again`, async () => {
  const endMs = performance.now() + PATIENCE_MS;
  const visits = await Promise.all(Array.from({ length: USERS }, () => visit(endMs)));
  const peaks = await Promise.all([producer, worker].map(({ pid }) => peakMiB(pid)));
  const refusals = visits.reduce((sum, each) => sum + each.refusals, 0);
  console.log(`refused ${refusals} times; at most ${peaks.join(' and ')} MiB in producer and worker`);
  expect(new Set(visits.map(({ label }) => label)).size).toBe(1);
  for (const peak of peaks) expect(peak).toBeLessThan(LIMIT_MIB);
  expect((await fetch(`${producer.url}/v2/health/ready`)).status).toBe(200);
  expect(producer.stderr() + worker.stderr()).toBe('');
});

/** Sends the photo until it is answered; comes again when told. */
async function visit(endMs: number): Promise<Visit> {
  for (let refusals = 0; performance.now() < endMs; refusals++) {
    const response = await fetch(`${producer.url}/models/${MODEL}`, { method: 'POST', body: photo });
    const body = (await response.json()) as { error?: string } & { label: string }[];
    if (response.status === 200) return { refusals, label: body[0]!.label };
    if (response.status !== 429) throw new Error(`answered ${response.status}: ${body.error}`);
    const seconds = Number(response.headers.get('retry-after'));
    if (!(seconds >= 1 && seconds <= 60)) throw new Error(`retry-after was ${response.headers.get('retry-after')}`);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
  throw new Error(`not answered within ${PATIENCE_MS} ms`);
}

/** A photo as phones take it: twelve megapixels, with noise until it has 5 MB. */
async function makePhoto(): Promise<Buffer> {
  const [width, height] = [4000, 3000];
  const coffee = await readFile(`${ROOT}/examples/photos/coffee.png`);
  const noise = {
    create: { width, height, channels: 3, background: 'grey', noise: { type: 'gaussian', mean: 128, sigma: 22 } },
  };
  const grain = await sharp(noise as SharpOptions)
    .png({ compressionLevel: 0 })
    .toBuffer();
  const picture = sharp(coffee)
    .resize(width, height, { fit: 'fill' })
    .composite([{ input: grain, blend: 'soft-light' }]);
  const jpeg = await picture.jpeg({ quality: 94 }).toBuffer();
  expect(Math.abs(jpeg.length / PHOTO_BYTES - 1), `the photo has ${jpeg.length} bytes`).toBeLessThan(0.3);
  return jpeg;
}

/** Linux only; elsewhere the file is missing, and the test says so. */
async function peakMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]) / 1024);
}
