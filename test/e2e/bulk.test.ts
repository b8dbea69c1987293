import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request as send } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../support/process.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { type Server, startServer } from '../support/serving.ts';

const shell = promisify(execFile);
const PAGE = readFileSync(join(ROOT, 'docs', 'bulk.md'), 'utf8');
const COMMANDS = /^```sh\n([^]*?)^```$/m.exec(PAGE)![1]!.trim().split('\n');
const DIGIT = (
  JSON.parse(readFileSync(join(ROOT, 'examples', 'requests', 'digit.json'), 'utf8')) as {
    inputs: { data: number[] }[];
  }
).inputs[0]!;

interface AnswerLine {
  readonly index?: number;
  readonly response?: { readonly id: string };
  readonly error?: { readonly status: number };
  readonly progress?: object;
  readonly summary?: object;
}

const parse = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AnswerLine);

describe.each(['serve', 'pool'] as const)('bulk requests to %s', (serving) => {
  let server: Server;
  beforeAll(async () => {
    server = await startServer(serving, ['--model-repository=examples/models', '--log-info=false'], 1);
  });
  afterAll(() => server.stop());

  test('the lines of docs/bulk.md do what it says, as printed', async () => {
    expect(COMMANDS).toHaveLength(2);
    for (const command of COMMANDS) {
      const line = command.replaceAll('127.0.0.1:8000', new URL(server.url).host);
      const { stdout } = await shell('/bin/sh', ['-ec', line], { cwd: ROOT });
      const answers = parse(stdout);
      const byIndex = answers.slice(0, -1).sort((a, b) => a.index! - b.index!);
      expect(byIndex.map(({ response }) => response?.id)).toEqual(['a three', 'its mirror image', 'upside down']);
      expect(answers.at(-1)).toEqual({ summary: { done: 3, failed: 0, complete: true } });
    }
  });

  test('2,000 lines are answered, and the broken ones among them say why', async () => {
    const good = (id: string) => JSON.stringify({ id, inputs: [DIGIT] });
    const lines = Array.from({ length: 2000 }, (_, at) => (at % 100 === 7 ? '{"inputs": 7}' : good(String(at))));
    const answer = await fetch(`${server.url}/v2/models/digits_mlp/bulk?concurrency=64&progress=true`, {
      method: 'POST',
      body: lines.join('\n'),
    });
    const answers = parse(await answer.text());
    expect(answers.at(-1)).toEqual({ summary: { done: 2000, failed: 20, complete: true } });
    const rows = answers.filter(({ index }) => index !== undefined).sort((a, b) => a.index! - b.index!);
    expect(rows.map(({ index }) => index)).toEqual(lines.map((_, at) => at));
    for (const { index, response, error } of rows) {
      if (index! % 100 === 7) expect(error?.status).toBe(400);
      else expect(response?.id).toBe(String(index));
    }
  });

  test('a client that hangs up in the middle leaves nothing in hand', async () => {
    const { port } = new URL(server.url);
    const request = send({ port, method: 'POST', path: '/v2/models/digits_mlp/bulk?concurrency=64' });
    request.on('error', () => undefined);
    let received = 0;
    request.on('response', (response) => {
      response.on('error', () => undefined);
      response.on('data', (chunk: Buffer) => {
        received += chunk.length;
      });
    });
    const line = `${JSON.stringify({ inputs: [DIGIT] })}\n`;
    const more = (): boolean => request.destroyed || (request.write(line.repeat(50), () => void more()), true);
    more();
    await until('answers come while lines are sent', () => received > 10_000);
    request.destroy();
    await until('nothing is in hand', async () => {
      const pending = [...(await scrape(server.metricsUrl))].filter(
        ([series]) => series.startsWith('nv_inference_pending_request_count') && series.includes('digits_mlp'),
      );
      return pending.length > 0 && pending.every(([, count]) => count === 0);
    });
    const answer = await fetch(`${server.url}/v2/models/digits_mlp/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs: [DIGIT] }),
    });
    expect(answer.status).toBe(200);
  });
});
