// Compiles to dist/ and copies what is not TypeScript. Plain Node, so that it runs before anything is built.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCES = ['cli', 'producer', 'worker', 'shared'];
const STAMP = join(root, 'dist', '.built');

/** Builds when a source is newer than the last build. */
export function buildIfStale() {
  if (existsSync(STAMP)) {
    const builtAt = statSync(STAMP).mtimeMs;
    const inputs = [...SOURCES, 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json'];
    if (inputs.every((name) => newest(join(root, name)) <= builtAt)) return;
  }
  build();
}

export function build() {
  rmSync(join(root, 'dist'), { recursive: true, force: true });
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('the TypeScript compiler found errors');
  for (const folder of SOURCES) {
    for (const file of files(join(root, folder)).filter((path) => !/(?<!\.d)\.ts$/.test(path))) {
      const target = join(root, 'dist', file.slice(root.length + 1));
      mkdirSync(dirname(target), { recursive: true });
      cpSync(file, target);
    }
  }
  chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755);
  writeFileSync(STAMP, '');
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
