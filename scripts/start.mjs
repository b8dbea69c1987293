// `npm start`: installs, builds and serves the example models. Arguments are passed on to `millrace serve`.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkMachine, fail, installIfStale, root } from './install.mjs';

const parent = process.ppid;
checkMachine();
installIfStale();
const { buildIfStale } = await import('./build.mjs');
try {
  buildIfStale();
} catch (error) {
  fail(`the build failed: ${error.message}`);
}

// npm's shell ends on the SIGTERM that npm passes on to it, and nobody tells us; the server looks after it as well.
const byNpm = process.env.npm_lifecycle_event !== undefined;
if (byNpm && process.ppid !== parent) fail('npm start was ended while it built');
if (byNpm) process.env.MILLRACE_PARENT = String(parent);

const main = join(root, 'dist', 'cli', 'main.js');
const args = process.argv.slice(2);
const hasRepository = args.some((arg) => /^--model-(repository|store)\b/.test(arg));
const repository = hasRepository || process.env.MILLRACE_MODEL_REPOSITORY ? [] : ['--model-repository=examples/models'];
process.chdir(root);
process.argv = [process.execPath, main, 'serve', ...repository, ...args];
await import(pathToFileURL(main).href);
