import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JobDocument } from '../../producer/facade/jobs/codec.ts';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { type RedisServer, startRedis, until } from '../support/redis.ts';

const SECRET = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const OLD_SECRET = `whsec_${Buffer.alloc(24, 3).toString('base64')}`;
const HOOKED = [`--webhook-secret=${SECRET} ${OLD_SECRET}`, '--webhook-allow-private=true'];
const TOKEN = 'a-token-for-the-dashboard';
const MODELS = ['--model-repository=examples/models', '--log-info=false'];

type IsGenuine = (secret: string, headers: IncomingHttpHeaders, body: string) => boolean;

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A receiver that answers with these statuses in turn, the last one for good; 0 for no answer at all. */
class Receiver {
  readonly received: Received[] = [];
  statuses: number[] = [200];
  readonly #server: HttpServer;

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const status = this.statuses.length > 1 ? this.statuses.shift()! : this.statuses[0]!;
        this.received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
        if (status !== 0) response.writeHead(status).end('thanks');
      });
    });
  }

  async start(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook?token=tell-nobody`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

let redis: RedisServer;
let body = '';
let folder = '';
let isGenuine: IsGenuine;
let receiver: Receiver;

beforeAll(async () => {
  redis = await startRedis();
  body = await readFile(join(ROOT, 'examples', 'requests', 'digit.json'), 'utf8');
  folder = await mkdtemp(join(tmpdir(), 'millrace-webhooks-'));
  // Receivers verify as the documentation says.
  const page = await readFile(join(ROOT, 'docs', 'jobs.md'), 'utf8');
  const file = join(folder, 'verify.mjs');
  await writeFile(file, /^```js\n([^]*?)^```$/m.exec(page)![1]!);
  ({ isGenuine } = (await import(pathToFileURL(file).href)) as { isGenuine: IsGenuine });
});
afterAll(async () => {
  await redis.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  receiver = new Receiver();
  await receiver.start();
});
afterEach(() => receiver.stop());

const queue = () => [`--redis=${redis.url}`, '--log-info=false'];

function submit(url: string, webhook: string, more = ''): Promise<Response> {
  const query = `webhook=${encodeURIComponent(webhook)}${more}`;
  return fetch(`${url}/v2/models/digits_mlp/jobs?${query}`, { method: 'POST', body });
}

async function submitted(url: string, webhook: string, more = ''): Promise<JobDocument> {
  const answer = await submit(url, webhook, more);
  expect(answer.status).toBe(202);
  return (await answer.json()) as JobDocument;
}

async function jobOf(url: string, id: string): Promise<JobDocument> {
  return (await (await fetch(`${url}/jobs/${id}`)).json()) as JobDocument;
}

function untilWebhook(url: string, id: string, state: string): Promise<void> {
  return until(`the webhook is ${state}`, async () => (await jobOf(url, id)).webhook?.state === state, 30_000);
}

describe.each(['serve', 'pool'] as const)('webhooks of %s', (serving) => {
  let server: MillraceProcess;
  let worker: MillraceProcess | undefined;
  beforeAll(async () => {
    if (serving === 'serve') {
      server = await startMillrace(['serve', ...MODELS, ...HOOKED]);
      return;
    }
    [server, worker] = await Promise.all([
      startMillrace(['producer', ...queue(), ...HOOKED, `--dashboard-token=${TOKEN}`]),
      startMillrace(['worker', ...MODELS, `--redis=${redis.url}`]),
    ]);
    await until('the producer is ready', async () => (await fetch(`${server.url}/v2/health/ready`)).ok);
  });
  afterAll(async () => {
    await Promise.all([server.stop(), worker?.stop()]);
  });

  test('tell what asking for the job would have, signed with each secret', async () => {
    const job = await submitted(server.url, receiver.url);
    expect(job.webhook).toEqual({ state: 'pending', attempts: 0 });
    await untilWebhook(server.url, job.id, 'delivered');
    expect(receiver.received).toHaveLength(1);
    const [{ headers, body: text }] = receiver.received as [Received];
    expect(headers).toMatchObject({ 'webhook-id': job.id, 'content-type': 'application/json' });
    expect([SECRET, OLD_SECRET].map((secret) => isGenuine(secret, headers, text))).toEqual([true, true]);
    expect(isGenuine(SECRET, headers, `${text} `)).toBe(false);
    const now = await jobOf(server.url, job.id);
    expect(JSON.parse(text)).toEqual({ ...now, webhook: { state: 'pending', attempts: 0 } });
    expect(now).toMatchObject({ state: 'succeeded', webhook: { state: 'delivered', attempts: 1 } });
  });

  test('are tried again until they are taken, with the same id', async () => {
    receiver.statuses = [500, 302, 204];
    const job = await submitted(server.url, receiver.url, '&keep=1h');
    await untilWebhook(server.url, job.id, 'delivered');
    expect(receiver.received.map(({ headers }) => headers['webhook-id'])).toEqual(Array<string>(3).fill(job.id));
    expect(receiver.received.every(({ headers, body: text }) => isGenuine(SECRET, headers, text))).toBe(true);
    expect((await jobOf(server.url, job.id)).webhook).toEqual({ state: 'delivered', attempts: 3 });
  });

  test('end with 410', async () => {
    receiver.statuses = [410];
    const job = await submitted(server.url, receiver.url);
    await untilWebhook(server.url, job.id, 'failed');
    expect(receiver.received).toHaveLength(1);
  });

  test('tell of jobs that were cancelled or have expired', async () => {
    const waiting = await submitted(server.url, receiver.url, '&delay=1h');
    await fetch(`${server.url}/jobs/${waiting.id}`, { method: 'DELETE' });
    await untilWebhook(server.url, waiting.id, 'delivered');
    const late = await submitted(server.url, receiver.url, '&timeout=1ms&delay=1ms');
    await until('the job is over', async () => (await jobOf(server.url, late.id)).finished_at !== null);
    await untilWebhook(server.url, late.id, 'delivered');
    const states = receiver.received.map(({ body: text }) => (JSON.parse(text) as JobDocument).state);
    expect(states).toEqual(['cancelled', 'expired']);
  });

  test('are refused at once when they are no URL', async () => {
    const refused = await submit(server.url, 'somewhere');
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('http or https URL')]);
  });

  test('leave nothing of their URLs and secrets in the log', () => {
    const log = server.stdout() + server.stderr();
    expect(log).not.toMatch(/tell-nobody|whsec_/);
  });

  test.skipIf(serving === 'serve')(
    'that failed are on the dashboard, without what may be secret of a URL',
    async () => {
      receiver.statuses = [410];
      const job = await submitted(server.url, receiver.url);
      await untilWebhook(server.url, job.id, 'failed');
      const headers = { authorization: `Basic ${Buffer.from(`millrace:${TOKEN}`).toString('base64')}` };
      const board = async () => {
        const url = `${server.url}/dashboard/api/queues?activeQueue=%40webhooks&status=failed&page=1&jobsPerPage=10`;
        return (await fetch(url, { headers })).text();
      };
      await until('the board has it', async () => (await board()).includes(job.id));
      const text = await board();
      expect(text).toContain('answered 410');
      expect(text).toContain(new URL(receiver.url).origin);
      expect(text).not.toMatch(/tell-nobody|\/hook/);
    },
  );
});

test('a webhook is delivered by another producer when the one that had it is killed', async () => {
  const start = () => startMillrace(['producer', ...queue(), ...HOOKED]);
  const [first, worker] = await Promise.all([start(), startMillrace(['worker', ...MODELS, `--redis=${redis.url}`])]);
  await until('the producer is ready', async () => (await fetch(`${first.url}/v2/health/ready`)).ok);
  receiver.statuses = [0, 200];
  const job = await submitted(first.url, receiver.url, '&keep=1h');
  await until('it is being sent', () => receiver.received.length === 1);
  await first.stop('SIGKILL');
  const second = await start();
  await until('it is sent again', () => receiver.received.length === 2, 40_000);
  await untilWebhook(second.url, job.id, 'delivered');
  expect(isGenuine(SECRET, receiver.received[1]!.headers, receiver.received[1]!.body)).toBe(true);
  await Promise.all([second.stop(), worker.stop()]);
});

test('a webhook of a job that ends while there is no producer waits for one', async () => {
  const start = () => startMillrace(['producer', ...queue(), ...HOOKED]);
  const [first, worker] = await Promise.all([start(), startMillrace(['worker', ...MODELS, `--redis=${redis.url}`])]);
  await until('the producer is ready', async () => (await fetch(`${first.url}/v2/health/ready`)).ok);
  const job = await submitted(first.url, receiver.url, '&delay=2s&keep=1s');
  await first.stop('SIGKILL');
  const client = redis.client();
  await until('the job is over and its record gone', async () => {
    return (await client.exists(`{millrace}.job:${job.id}`)) === 0 && (await client.hlen('{millrace}.webhooks')) === 1;
  });
  expect(receiver.received).toHaveLength(0);
  const second = await start();
  await until('it is sent', () => receiver.received.length === 1);
  expect(JSON.parse(receiver.received[0]!.body)).toMatchObject({ id: job.id, state: 'succeeded' });
  await Promise.all([second.stop(), worker.stop()]);
});

test('webhooks are 400 where they are off, and refused by address unless that is allowed', async () => {
  const [off, shy] = await Promise.all([
    startMillrace(['serve', ...MODELS]),
    startMillrace(['serve', ...MODELS], { env: { MILLRACE_WEBHOOK_SECRET: SECRET } }),
  ]);
  const refused = await submit(off.url, receiver.url);
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('--webhook-secret')]);
  const closed = await submit(shy.url, receiver.url);
  expect([closed.status, await closed.text()]).toEqual([400, expect.stringContaining('--webhook-allow-private')]);
  // A name tells only when it is looked up.
  const job = await submitted(shy.url, receiver.url.replace('127.0.0.1', 'localhost'));
  await untilWebhook(shy.url, job.id, 'failed');
  expect(receiver.received).toHaveLength(0);
  await Promise.all([off.stop(), shy.stop()]);
});
