// `npm test`: installs, builds and runs the tests, with real Redis and real models.
//   node scripts/test.mjs                   unit, contract, integration and end-to-end tests
//   node scripts/test.mjs --slow            the browser, the official clients, GPUs on a pretend runtime, the drills
//   node scripts/test.mjs unit test/unit/x  one kind, and vitest's own arguments
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkMachine, fail, installIfStale, root } from './install.mjs';

const FAST = ['unit', 'contract', 'integration', 'e2e'];
const SLOW = ['browser', 'clients', 'gpu', 'chaos'];

checkMachine();
installIfStale();
const args = process.argv.slice(2);
const slow = args[0] === '--slow';
const kinds = slow ? SLOW : args.filter((arg) => [...FAST, ...SLOW].includes(arg));
const chosen = kinds.length > 0 ? kinds : FAST;
const rest = args.filter((arg) => arg !== '--slow' && !chosen.includes(arg));

need('redis-server', ['redis-server'], 'Debian: apt-get install redis-server; macOS: brew install redis');
if (chosen.includes('browser')) {
  need(
    ['chromium', 'chromium-browser', 'google-chrome'],
    ['chromium', 'fonts-dejavu-core'],
    'Debian: apt-get install chromium',
  );
}
if (chosen.includes('gpu')) need('gcc', ['gcc', 'libc6-dev', 'binutils'], 'Debian: apt-get install gcc libc6-dev');
if (chosen.includes('clients') || chosen.includes('gpu'))
  need('python3', ['python3', 'python3-venv'], 'Debian: apt-get install python3 python3-venv');

const { buildIfStale } = await import('./build.mjs');
try {
  buildIfStale();
} catch (error) {
  fail(`the build failed: ${error.message}`);
}
mkdirSync(join(root, '.cache'), { recursive: true });
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
const report = join(root, '.cache', slow ? 'report-slow.json' : 'report.json');
const { status, signal } = spawnSync(
  process.execPath,
  [
    vitest,
    'run',
    ...chosen.flatMap((kind) => ['--project', kind]),
    '--reporter=default',
    '--reporter=json',
    ...(chosen.includes('chaos') ? ['--reporter=./test/chaos/drill-table.ts'] : []),
    `--outputFile.json=${report}`,
    ...rest,
  ],
  { cwd: root, stdio: 'inherit', env: { ...process.env, UV_THREADPOOL_SIZE: '16' } },
);
process.exit(signal ? 1 : status);

/** Finds one of the programs, or installs it where this is Debian and we are root. */
function need(programs, packages, how) {
  const names = [programs].flat();
  if (names.some(isThere)) return;
  const mayInstall = existsSync('/etc/debian_version') && process.getuid?.() === 0;
  if (mayInstall) {
    process.stderr.write(`millrace: installing ${packages.join(' ')} (apt-get) …\n`);
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const quiet = { stdio: ['ignore', 'ignore', 2], env };
    spawnSync('apt-get', ['update', '-qq'], quiet);
    spawnSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], quiet);
    if (names.some(isThere)) return;
  }
  fail(`${names[0]} is needed for the tests and was not found. ${how}`);
}

function isThere(program) {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
}
