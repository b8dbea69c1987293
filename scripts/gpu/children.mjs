// Processes of Millrace and Redis that a part starts. They end with the part: it has a process group of its own.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { dist, redisServer } from './places.mjs';
import { temporary } from './sessions.mjs';

const START_MS = 60_000;
const STOP_MS = 15_000;
const KEPT_CHARS = 1500;

/** Starts `millrace <args>` and waits until it says that it is ready. */
export async function startMillrace(args) {
  const startedMs = performance.now();
  const ports = ['--metrics-port=0', ...(args[0] === 'worker' ? [] : ['--http-port=0', '--allow-grpc=false'])];
  const { child, text } = await startProgram(
    process.execPath,
    [dist('cli/main.js'), ...args, ...ports],
    {},
    / is ready\n[^]*\n\n/,
  );
  return {
    readyMs: performance.now() - startedMs,
    url: /^ +HTTP +(\S+)/m.exec(text)?.[1] ?? '',
    metricsUrl: /^ +metrics +(\S+)/m.exec(text)?.[1] ?? '',
    pid: child.pid,
    stop: () => stop(child),
  };
}

/** Throws where there is no Redis. */
export async function startRedis() {
  const server = redisServer();
  if (!server) throw new Error('there is no redis-server, neither brought along nor on this machine');
  const port = await freePort();
  const settings = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction'];
  const args = ['--port', String(port), '--dir', temporary, ...settings];
  const { child } = await startProgram(server.command, args, server.env, /Ready to accept connections/);
  return { url: `redis://127.0.0.1:${port}`, stop: () => stop(child) };
}

function startProgram(command, args, env, ready) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    let log = '';
    const fail = (what) => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      reject(new Error(`${args[1] ?? command} ${what}: ${(log || text).slice(-KEPT_CHARS).trim()}`));
    };
    const timer = setTimeout(() => fail(`was not ready within ${START_MS / 1000} s`), START_MS);
    child.stderr.setEncoding('utf8').on('data', (piece) => (log = (log + piece).slice(-KEPT_CHARS)));
    child.stdout.setEncoding('utf8').on('data', (piece) => {
      text = (text + piece).slice(-20_000);
      if (!ready.test(text)) return;
      clearTimeout(timer);
      resolve({ child, text });
    });
    child.once('error', (error) => fail(error.message));
    child.once('exit', (code, signal) => fail(`ended with ${signal ?? code}`));
  });
}

/** Resolves with the exit code, or the signal that ended it. */
function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode ?? child.signalCode;
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      resolve(code ?? signal);
    });
    child.kill('SIGTERM');
  });
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
