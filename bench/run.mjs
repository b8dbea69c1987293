// `npm run bench`: Millrace beside raw ONNX Runtime and other servers, same models, same machine, one run.
//   npm run bench                                     the quick comparison: serve, queue, raw, hand-rolled BullMQ queue
//   npm run bench -- --servers triton,mosec,millrace  any servers that ../shared/peers knows; see its README for options
// Needs python3, wrk and redis-server. Writes bench/results/<name>.json and .md with the facts of the machine.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { fail, installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();

const source = join(root, '..', 'shared', 'peers');
if (!existsSync(source)) fail('the comparison needs the folder ../shared/peers');
for (const program of ['wrk', 'redis-server', 'python3']) {
  if (spawnSync(program, ['--version']).error) fail(`${program} is needed for the comparison and was not found`);
}

const args = process.argv.slice(2);
const servers = option('servers') ?? 'millrace,millrace-queue,naive-bullmq-16';
const name = option('name') ?? 'quick';
const peers = process.env.MILLRACE_PEERS ?? join(root, '.cache', 'peers');
if (!existsSync(peers)) {
  cpSync(source, peers, { recursive: true });
  spawnSync('chmod', ['-R', 'u+w', peers]);
}
const environments = new Map([
  ['naive-bullmq', 'node'],
  ['naive-bullmq-16', 'node'],
  ['node-inline', 'node'],
  ['fastapi-inline', 'fastapi'],
  ['bentoml-front', 'bentoml'],
  ['bentoml-json', 'bentoml'],
  ['naive-celery', 'celery'],
]);
const wanted = new Set([
  'raw',
  ...servers
    .split(',')
    .filter((server) => !server.startsWith('millrace'))
    .map((server) => environments.get(server) ?? server),
]);
run(join(peers, 'setup.sh'), [...wanted], peers);

const json = join(root, 'bench', 'results', `${name}.json`);
const markdown = join(root, 'bench', 'results', `${name}.md`);
const rest = args.filter(
  (arg, index) => !['--servers', '--name'].includes(arg) && !['--servers', '--name'].includes(args[index - 1]),
);
run(
  join(peers, '.venvs', 'raw', 'bin', 'python'),
  [
    'bench/peers.py',
    peers,
    '--servers',
    servers,
    '--models',
    'mlp,conv,tiny',
    '--json',
    json,
    '--markdown',
    markdown,
    ...rest,
  ],
  root,
);

const machine = {
  date: new Date().toISOString().slice(0, 10),
  commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim(),
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  node: process.versions.node,
};
writeFileSync(
  markdown,
  `${Object.entries(machine)
    .map(([key, value]) => `${key}: ${value}`)
    .join(' · ')}\n\n${readFileSync(markdown, 'utf8')}`,
);
process.stdout.write(`${markdown}\n`);

function option(flag) {
  const index = args.indexOf(`--${flag}`);
  return index < 0 ? undefined : args[index + 1];
}

function run(command, commandArgs, cwd) {
  const { status } = spawnSync(command, commandArgs, { cwd, stdio: 'inherit' });
  if (status !== 0) fail(`${command} failed`);
}
