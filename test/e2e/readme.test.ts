import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COMMAND_FLAGS, FLAGS, type CommandName, type FlagKey } from '../../cli/flags/catalogue.ts';
import { environmentName, type Flag } from '../../cli/flags/flag.ts';
import { type MillraceProcess, ROOT, startMillrace } from '../support/process.ts';
import { startRedis, until } from '../support/redis.ts';

const shell = promisify(execFile);
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');

/** Defaults that depend on the machine or on other options. */
const COMPUTED: Partial<Record<FlagKey, string>> = {
  preprocessThreads: 'cores, at most 2',
  allowClientShm: 'true on loopback',
};

describe('the README against a running server', () => {
  let serve: MillraceProcess;

  beforeAll(async () => {
    serve = await startMillrace(['serve', '--model-repository=examples/models', '--log-info=false']);
  });
  afterAll(() => serve.stop());

  test('what it says npm start ends with is what is printed', () => {
    const shown = codeBlocks('').find((block) => block.startsWith('Millrace '))!;
    expect(withReadmePorts(serve.stdout()).trimEnd()).toBe(shown.trimEnd());
  });

  test('the answer that it shows for the photo is the answer', async () => {
    const [line] = /^ +(curl --data-binary .+)$/m.exec(README)!.slice(1);
    const shown = JSON.parse(codeBlocks('json')[0]!) as { label: string; score: number }[];
    expect(shown.length).toBeGreaterThan(0);
    const answer = JSON.parse(await runLine(line!)) as { label: string; score: number }[];
    for (const [index, { label, score }] of shown.entries()) {
      expect(answer[index]!.label).toBe(label);
      expect(answer[index]!.score).toBeCloseTo(score, 2);
    }
  });

  const curls = codeBlocks('sh').flatMap((block) => block.split('\n').filter((line) => line.startsWith('curl ')));

  test.each(curls.map((line) => [line]))('%s', async (line) => {
    const answer: unknown = JSON.parse(await runLine(line));
    expect(answer).not.toHaveProperty('error');
  });

  const withReadmePorts = (text: string): string =>
    text
      .replaceAll(new URL(serve.url).host, '127.0.0.1:8000')
      .replaceAll(serve.grpcAddress, '127.0.0.1:8001')
      .replaceAll(new URL(serve.metricsUrl).host, '127.0.0.1:8002');

  async function runLine(line: string): Promise<string> {
    const command = line.replaceAll('127.0.0.1:8000', new URL(serve.url).host);
    const { stdout } = await shell('/bin/sh', ['-c', command], { cwd: ROOT });
    return stdout;
  }
});

describe('the README', () => {
  test('its commands for the pool start a producer and workers', async () => {
    const lines = codeBlocks('sh').flatMap((block) => block.split('\n').filter((line) => line.startsWith('millrace ')));
    expect(lines.map((line) => line.split(' ')[1])).toEqual(['producer', 'worker', 'worker']);
    const redis = await startRedis();
    try {
      const [producer, ...workers] = await Promise.all(
        lines.map((line) => startMillrace(line.replace('redis://127.0.0.1:6379', redis.url).split(' ').slice(1))),
      );
      await until('the producer knows the models', async () => (await fetch(`${producer!.url}/v2/health/ready`)).ok);
      for (const process of [producer!, ...workers]) expect(await process.stop()).toBe(0);
    } finally {
      await redis.stop();
    }
  });

  test('its table of options is the catalogue', () => {
    const rows = [...README.matchAll(/^\| `--([a-z-]+)=([A-Z:]+)` +\| (.+?) +\| (.*?) *\| (.+?) +\| (.+?) +\|$/gm)];
    const shown = rows.map(([, name, value, , preset, variables, commands]) => ({
      name,
      value,
      preset: preset!.replaceAll('`', ''),
      variables: variables!.replaceAll('`', '').split(', '),
      commands,
    }));
    const wanted = (Object.keys(FLAGS) as FlagKey[]).map((key) => {
      const flag: Flag = FLAGS[key];
      const commands = (Object.keys(COMMAND_FLAGS) as CommandName[]).filter((command) =>
        (COMMAND_FLAGS[command] as readonly FlagKey[]).includes(key),
      );
      return {
        name: flag.name,
        value: flag.value,
        preset: COMPUTED[key] ?? String(flag.default ?? ''),
        variables: [environmentName(flag), ...(flag.env === undefined ? [] : [flag.env])],
        commands: commands.length === Object.keys(COMMAND_FLAGS).length ? 'all' : commands.join(', '),
      };
    });
    expect(shown).toEqual(wanted);
    for (const [, name, , meaning] of rows) {
      const flag = Object.values(FLAGS).find((each) => each.name === name)!;
      expect(meaning).toContain(flag.help);
    }
  });

  test('its links lead somewhere', () => {
    const links = [...README.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, target]) => target!);
    expect(links.filter((target) => !/^https?:/.test(target) && !existsSync(join(ROOT, target)))).toEqual([]);
  });
});

/** The code blocks of one language, without their fences; '' for those that name none. */
function codeBlocks(language: string): string[] {
  const blocks = [...README.matchAll(/^```(\w*)\n([^]*?)^```$/gm)];
  return blocks.flatMap(([, name, text]) => (name === language ? [text!] : []));
}
