// Installs the npm packages where they are missing or older than package-lock.json.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, lstatSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

const OLDEST_NODE = [20, 19];

/** Ends the process with one line that a person can act on. */
export function fail(line) {
  process.stderr.write(`millrace: ${line}\n`);
  process.exit(1);
}

export function checkMachine() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
    fail(`Node ${OLDEST_NODE.join('.')} or newer is needed, this is ${process.versions.node}`);
  }
  try {
    accessSync(root, constants.W_OK);
  } catch {
    fail('this folder cannot be written to; packages and the build go into it (node_modules, dist)');
  }
}

export function installIfStale() {
  const installed = join(root, 'node_modules', '.package-lock.json');
  const lock = join(root, 'package-lock.json');
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  const packages = lstatSync(join(root, 'node_modules'), { throwIfNoEntry: false });
  if (packages?.isSymbolicLink()) {
    const remedy = 'install there, or remove the link';
    fail(
      `node_modules is a link to a folder without the packages of package-lock.json, which npm ci would empty; ${remedy}`,
    );
  }
  process.stderr.write('millrace: installing packages (npm ci) …\n');
  // The CPU library comes with the package; its own install step would look for GPU libraries outside the npm registry.
  const env = { ...process.env, ONNXRUNTIME_NODE_INSTALL: 'skip' };
  delete env.NODE_ENV; // 'production' would leave out the compiler
  const cli = process.env.npm_execpath;
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status } = cli
    ? spawnSync(process.execPath, [cli, ...args], { cwd: root, stdio: ['ignore', 2, 2], env })
    : spawnSync('npm', args, { cwd: root, stdio: ['ignore', 2, 2], env, shell: process.platform === 'win32' });
  if (status !== 0) fail('npm ci failed; the lines above say why');
}
