import { existsSync, readFileSync } from 'node:fs';
import { Script } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { FLAGS } from '../../../cli/flags/catalogue.ts';
import { environmentName } from '../../../cli/flags/flag.ts';
import { parseFlags } from '../../../cli/flags/parse-flags.ts';

const root = new URL('../../../', import.meta.url);
const read = (name: string) => readFileSync(new URL(name, root), 'utf8');
const stages = readStages(read('Dockerfile'));
const [build, final] = stages as [Instruction[], Instruction[]];
const ignore = read('.dockerignore')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const manifest = JSON.parse(read('package.json')) as { bin: { millrace: string }; scripts: Record<string, string> };

interface Instruction {
  readonly name: string;
  readonly rest: string;
}

/** The instructions of each stage, with continued lines joined. */
function readStages(text: string): Instruction[][] {
  const joined = text.replace(/^\s*#.*\n/gm, '').replace(/\\\n\s*/g, ' ');
  const result: Instruction[][] = [];
  for (const line of joined.split('\n').filter((line) => line.trim() !== '')) {
    const match = /^([A-Z]+) (.+)$/.exec(line);
    if (!match) throw new Error(`not an instruction: ${line}`);
    if (match[1] === 'FROM') result.push([]);
    result.at(-1)!.push({ name: match[1]!, rest: match[2]! });
  }
  return result;
}

function all(stage: readonly Instruction[], name: string): string[] {
  return stage.filter((instruction) => instruction.name === name).map(({ rest }) => rest);
}

function position(stage: readonly Instruction[], name: string, part: string): number {
  const at = stage.findIndex((instruction) => instruction.name === name && instruction.rest.includes(part));
  if (at < 0) throw new Error(`no ${name} with ${part}`);
  return at;
}

function contextSources(stage: readonly Instruction[]): string[] {
  return all(stage, 'COPY').flatMap((rest) => (rest.startsWith('--from=') ? [] : rest.split(' ').slice(0, -1)));
}

describe('Dockerfile', () => {
  it('builds in one stage and runs in another, on the same official image', () => {
    expect(stages).toHaveLength(2);
    expect(build[0]!.rest).toBe('node:22-bookworm-slim AS build');
    expect(final[0]!.rest).toBe('node:22-bookworm-slim');
  });

  it('copies only what there is and what the build may see', () => {
    const sources = [...contextSources(build), ...contextSources(final)];
    expect(sources.length).toBeGreaterThan(0);
    for (const source of sources) {
      expect(existsSync(new URL(source, root)), source).toBe(true);
      expect(ignore, source).toContain(`!${source}`);
    }
  });

  it('keeps everything else out of the build', () => {
    expect(ignore[0]).toBe('*');
    const allowed = ignore.slice(1).map((line) => line.replace(/^!/, ''));
    expect([...new Set([...contextSources(build), ...contextSources(final)])].sort()).toEqual(allowed.sort());
  });

  it('installs from the lock file before the sources come, so that the layer is kept', () => {
    expect(position(build, 'ENV', 'ONNXRUNTIME_NODE_INSTALL=skip')).toBeLessThan(position(build, 'RUN', 'npm ci'));
    expect(position(build, 'COPY', 'package-lock.json')).toBeLessThan(position(build, 'RUN', 'npm ci'));
    expect(position(build, 'RUN', 'npm ci')).toBeLessThan(position(build, 'COPY', 'shared'));
    expect(position(build, 'COPY', 'cli')).toBeLessThan(position(build, 'RUN', 'npm run build'));
    expect(manifest.scripts).toHaveProperty('build');
  });

  it('leaves the development packages behind', () => {
    expect(all(build, 'RUN').at(-1)).toMatch(/npm run build .*npm prune --omit=dev/);
    expect(all(final, 'COPY')).toContain('--from=build /app/node_modules node_modules');
    expect(all(final, 'COPY')).toContain('--from=build /app/dist dist');
  });

  it('preloads jemalloc', () => {
    expect(all(final, 'RUN')[0]).toContain('libjemalloc2');
    expect(all(final, 'ENV')[0]).toContain('LD_PRELOAD=/usr/local/lib/libjemalloc.so.2');
    expect(position(final, 'RUN', 'libjemalloc2')).toBeLessThan(position(final, 'ENV', 'LD_PRELOAD'));
  });

  it('runs as nobody special, and drops its rights after the last step that needs them', () => {
    expect(all(final, 'USER')).toEqual(['node']);
    const user = position(final, 'USER', 'node');
    for (const name of ['RUN', 'COPY']) {
      expect(final.findLastIndex((instruction) => instruction.name === name)).toBeLessThan(user);
    }
  });

  it('sets only environment variables that are ours or well known', () => {
    const names = all(final, 'ENV').flatMap((rest) => [...rest.matchAll(/(\w+)=/g)].map((match) => match[1]!));
    const known = ['LD_PRELOAD', 'NODE_ENV', ...Object.values(FLAGS).map((flag) => environmentName(flag))];
    expect(known).toEqual(expect.arrayContaining(names));
  });

  it('starts the program, with a command line that it takes', () => {
    expect(JSON.parse(all(final, 'ENTRYPOINT')[0]!)).toEqual(['node', manifest.bin.millrace]);
    const [command, ...args] = JSON.parse(all(final, 'CMD')[0]!) as string[];
    expect(command).toBe('serve');
    expect(parseFlags('serve', args, {})).toMatchObject({ modelRepository: ['/models'] });
    expect(all(final, 'EXPOSE')).toEqual(['8000 8001 8002']);
  });

  it('asks the metrics port whether it is healthy, with valid JavaScript and an end', () => {
    const [check] = all(final, 'HEALTHCHECK');
    const [program, flag, script] = JSON.parse(check!.slice(check!.indexOf('CMD ') + 4)) as string[];
    expect([program, flag]).toEqual(['node', '-e']);
    expect(() => new Script(script!)).not.toThrow();
    expect(script).toContain('AbortSignal.timeout');
    expect(script).toContain(environmentName(FLAGS.metricsPort));
    expect(script).toContain(String(FLAGS.metricsPort.default));
  });
});
