// Compiles to dist/ and copies what is not TypeScript. Plain Node, so that it runs before anything is built.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCES = ['cli', 'client', 'producer', 'worker', 'shared'];
const STAMP = join(root, 'dist', '.built');
/** Of the folders that builds work in, beside `dist` so that source maps point to the sources from both. */
const PREFIX = '.dist-';
const LEFTOVER_MS = 3_600_000;
/** How the systems say that a folder cannot be renamed to one that is there and not empty. */
const TAKEN = ['ENOTEMPTY', 'EEXIST', 'EPERM'];

/** Builds when a source is newer than the last build. */
export function buildIfStale() {
  if (existsSync(STAMP)) {
    const builtAt = statSync(STAMP).mtimeMs;
    const inputs = [...SOURCES, 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json'];
    if (inputs.every((name) => newest(join(root, name)) <= builtAt)) return;
  }
  build();
}

/**
 * Compiles beside `dist` and puts the result in its place at the end: a server that starts meanwhile finds the last build,
 * and of two builds at once the later one stays.
 */
export function build() {
  removeLeftovers();
  const target = join(root, `${PREFIX}${process.pid}`);
  try {
    compileInto(target);
    replaceDist(target);
  } finally {
    rmSync(target, { recursive: true, force: true });
  }
}

function compileInto(target) {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target);
  // Its time is that of the start: what is edited from now on is newer than this build.
  writeFileSync(join(target, '.built'), '');
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json', '--outDir', target], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('the TypeScript compiler found errors');
  for (const folder of SOURCES) {
    for (const file of files(join(root, folder)).filter((path) => !/(?<!\.d)\.ts$/.test(path))) {
      const copy = join(target, file.slice(root.length + 1));
      mkdirSync(dirname(copy), { recursive: true });
      cpSync(file, copy);
    }
  }
  chmodSync(join(target, 'cli', 'main.js'), 0o755);
}

function replaceDist(target) {
  const dist = join(root, 'dist');
  for (let attempt = 1; ; attempt++) {
    const old = `${target}-old-${attempt}`;
    try {
      if (existsSync(dist)) renameSync(dist, old);
    } catch (error) {
      if (error.code !== 'ENOENT') throw error; // another build has just taken it away
    }
    rmSync(old, { recursive: true, force: true });
    try {
      renameSync(target, dist);
      return;
    } catch (error) {
      // Another build has put its own there in between.
      if (!TAKEN.includes(error.code) || attempt === 20) throw error;
    }
  }
}

/** What builds left behind that were killed. */
function removeLeftovers() {
  for (const name of readdirSync(root).filter((entry) => entry.startsWith(PREFIX))) {
    const path = join(root, name);
    const modifiedMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    if (Date.now() - modifiedMs > LEFTOVER_MS) rmSync(path, { recursive: true, force: true });
  }
}

function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });
}

function newest(path) {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return readdirSync(path).reduce((latest, name) => Math.max(latest, newest(join(path, name))), stat.mtimeMs);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) build();
