import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT, startMillrace } from '../support/process.ts';
import { startServer, type Server } from '../support/serving.ts';

const shell = promisify(execFile);
const PAGE = readFileSync(join(ROOT, 'docs', 'jobs.md'), 'utf8');

/** Its commands, each answer behind a line of its own. */
const LINES = Array.from(PAGE.matchAll(/^```sh\n([^]*?)^```$/gm), ([, block]) => block!.trim().split('\n')).flat();

describe.each(['serve', 'pool'] as const)('docs/jobs.md with %s', (serving) => {
  let server: Server;
  beforeAll(async () => {
    server = await startServer(serving, ['--model-repository=examples/models', '--log-info=false'], 1);
  });
  afterAll(() => server.stop());

  test('its lines do what they say, as printed', async () => {
    const script = LINES.map((line) => `${line}\n${line.startsWith('curl ') ? 'printf "\\n=====\\n"' : ''}`).join('\n');
    const command = script.replaceAll('127.0.0.1:8000', new URL(server.url).host);
    const { stdout } = await shell('/bin/sh', ['-ec', command], { cwd: ROOT });
    const answers = stdout.split('\n=====\n').slice(0, -1);
    const [state, result, list, waited, keyed, events, cancelled] = answers;
    expect(answers).toHaveLength(7);
    expect(JSON.parse(state!)).toMatchObject({ model: 'digits_mlp', state: 'succeeded' });
    expect(JSON.parse(result!)).toMatchObject({ model_name: 'digits_mlp' });
    expect(JSON.parse(list!)).toMatchObject({ jobs: [{ state: 'succeeded' }], cursor: null });
    expect(waited).toBe(result);
    expect(JSON.parse(keyed!)).toMatchObject({ priority: 5, attempts: { max: 5 }, state: 'queued' });
    expect(Array.from(events!.matchAll(/^event: (.*)$/gm), ([, name]) => name)).toEqual(['queued', 'running', 'done']);
    expect(JSON.parse(cancelled!)).toMatchObject({ state: 'cancelled' });
  });

  test('the fields that it shows of a job are those of a job', async () => {
    const shown = JSON.parse(/^```json\n([^]*?)^```$/m.exec(PAGE)![1]!) as object;
    const { jobs } = (await (await fetch(`${server.url}/jobs?state=succeeded`)).json()) as { jobs: object[] };
    expect(Object.keys(jobs[0]!)).toEqual(Object.keys(shown));
  });
});

test('--max-open-jobs bounds the jobs that wait', async () => {
  const serve = await startMillrace([
    'serve',
    '--model-repository=examples/models',
    '--max-open-jobs=1',
    '--log-info=false',
  ]);
  const body = readFileSync(join(ROOT, 'examples', 'requests', 'digit.json'));
  const submit = () => fetch(`${serve.url}/v2/models/digits_mlp/jobs?delay=1h`, { method: 'POST', body });
  expect((await submit()).status).toBe(202);
  const refused = await submit();
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  await serve.stop();
});
