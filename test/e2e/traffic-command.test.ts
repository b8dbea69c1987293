import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeAddModel } from '../support/add-model.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { startRedis, type RedisServer, until } from '../support/redis.ts';

let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-traffic-'));
  writeAddModel(join(folder, 'm'), [1, 2], 'version_policy { all { } }');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const PORTS = ['--http-port=0', '--grpc-port=0', '--metrics-port=0', '--log-info=false'];

const traffic = (url: string, ...args: string[]) => runMillrace(['model', 'traffic', ...args, `--url=${url}`]);

async function versionsOf(url: string, requests: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [0] }] });
  for (let i = 0; i < requests; i += 1) {
    const answer = await fetch(`${url}/v2/models/m/infer`, { method: 'POST', body });
    const { model_version: version } = (await answer.json()) as { model_version: string };
    counts[version] = (counts[version] ?? 0) + 1;
  }
  return counts;
}

describe('millrace model traffic', () => {
  let server: MillraceProcess;

  beforeAll(async () => {
    server = await startMillrace(['serve', `--model-repository=${folder}`, ...PORTS]);
  });
  afterAll(() => server.stop());

  test('shows, sets and clears how requests are spread', async () => {
    expect((await traffic(server.url, 'm')).stdout).toBe(
      'm  the version policy decides\nversion  share  state  requests\n1        -      READY  0\n2        -      READY  0\n',
    );
    expect(await traffic(server.url, 'm', '2=5%', '1=95%')).toMatchObject({
      code: 0,
      stderr: '',
      stdout:
        'm  set by a command\nversion  share  state  requests\n1        95%    READY  0\n2        5%     READY  0\n',
    });
    expect(await versionsOf(server.url, 40)).toEqual({ 1: 38, 2: 2 });
    expect((await traffic(server.url, 'm')).stdout).toContain('1        95%    READY  38\n2        5%     READY  2\n');
    expect((await traffic(server.url, 'm', '--clear')).stdout).toContain('the version policy decides');
    expect(await versionsOf(server.url, 3)).toEqual({ 2: 3 });
  });

  test('tells of a shadow, in words, in JSON and in the metrics', async () => {
    await traffic(server.url, 'm', '1=100', '--shadow=2', '--sticky=user', '--fallback');
    await versionsOf(server.url, 5);
    await until('the copies have ended', async () => {
      return (await traffic(server.url, 'm')).stdout.includes('0 same, 5 different, 0 failed, 0 skipped');
    });
    const { stdout } = await traffic(server.url, 'm', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      model: 'm',
      source: 'command',
      sticky: 'user',
      fallback: true,
      fallen: [],
      shadow: { version: '2', percent: 100, tolerance: 0.001, different: 5, largest_difference: 0.5 },
    });
    const page = await (await fetch(server.metricsUrl)).text();
    expect(page).toContain('millrace_traffic_requests_total{model="m",version="1"}');
    expect(page).toContain('millrace_shadow_requests_total{model="m",result="different",version="2"} 5');
  });

  test.each([
    [['m', '2=5%'], /^millrace: shares: the shares add up to 5, expected 100\n$/],
    [['m', 'fast'], /expected VERSION=PERCENT, like 2=5%, got "fast"/],
    [['m', '--clear', '1=100'], /--clear takes everything back/],
    [['m', '--shadow=x'], /--shadow: expected VERSION or VERSION=PERCENT/],
    [['m', '1=100', '--shadow=2', '--tolerance=x'], /--tolerance expects a number of 0 or more/],
    [[], /needs MODEL; usage: millrace model traffic MODEL/],
  ])('%j is a mistake of the command line', async (args, text) => {
    const { code, stdout, stderr } = await traffic(server.url, ...args);
    expect(stderr).toMatch(text);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  test('says what the server says of an unknown model', async () => {
    const { code, stderr } = await traffic(server.url, 'none', '1=100');
    expect(stderr).toBe("millrace: Request for unknown model: 'none' is not found\n");
    expect(code).toBe(1);
  });
});

test('beyond loopback the traffic is shown, and changed only with a header', async () => {
  const server = await startMillrace(['serve', `--model-repository=${folder}`, '--http-address=0.0.0.0', ...PORTS]);
  try {
    expect((await traffic(server.url, 'm')).code).toBe(0);
    for (const change of ['1=100', '--clear']) {
      const { code, stderr } = await traffic(server.url, 'm', change);
      expect(stderr).toMatch(
        /the traffic of 'm' cannot be changed here: beyond loopback it needs --http-restricted-api/,
      );
      expect(code).toBe(1);
    }
  } finally {
    await server.stop();
  }
  const rule = '--http-restricted-api=model-repository:key=secret';
  const guarded = await startMillrace([
    'serve',
    `--model-repository=${folder}`,
    '--http-address=0.0.0.0',
    rule,
    ...PORTS,
  ]);
  try {
    expect((await traffic(guarded.url, 'm', '1=100')).code).toBe(1);
    expect((await traffic(guarded.url, 'm', '1=100', '--header=key=secret')).code).toBe(0);
  } finally {
    await guarded.stop();
  }
});

describe('in a pool', () => {
  let redis: RedisServer;
  let processes: MillraceProcess[];

  beforeAll(async () => {
    redis = await startRedis();
    const env = { REDIS_URL: redis.url };
    processes = await Promise.all([
      startMillrace(['producer', ...PORTS], { env }),
      startMillrace(['producer', ...PORTS], { env }),
      startMillrace(['worker', `--model-repository=${folder}`, '--metrics-port=0', '--log-info=false'], { env }),
    ]);
  });
  afterAll(async () => {
    await Promise.all(processes.map((one) => one.stop()));
    await redis.stop();
  });

  test('the command to one producer holds for all', async () => {
    const [one, other] = processes.map(({ url }) => url) as [string, string];
    for (const url of [one, other]) {
      await until('the producer is ready', async () => (await fetch(`${url}/v2/health/ready`)).ok);
    }
    expect((await traffic(one, 'm', '1=50', '2=50')).code).toBe(0);
    await until('the other has read it', async () => /50%/.test((await traffic(other, 'm')).stdout));
    expect(await versionsOf(one, 10)).toEqual({ 1: 5, 2: 5 });
    expect(await versionsOf(other, 10)).toEqual({ 1: 5, 2: 5 });
  });
});
