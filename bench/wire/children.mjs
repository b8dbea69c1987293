// Processes that a benchmark starts. Whatever way the benchmark ends, they end with it.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const START_MS = 60_000;
const children = new Set();

process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

/**
 * Starts a program and waits until a line of its output says that it is ready.
 * @param isReady gets all lines so far, returns something once they are enough
 * @returns its process id and what `isReady` returned
 */
export async function startServer(command, args, isReady) {
  const child = start(command, args);
  const lines = [];
  const ready = new Promise((resolve, reject) => {
    // Reads on after the answer: a pipe that nobody empties stops who writes into it.
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      const found = isReady(lines);
      if (found !== undefined) resolve(found);
    });
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${args.join(' ')} left with ${code}: ${lines.join('\n')}`)));
  });
  const found = await within(START_MS, ready, () => `${args.join(' ')} is not ready: ${lines.join('\n')}`);
  return { pid: child.pid, stop: () => stop(child), found };
}

/** Runs a program to its end and returns what it printed. */
export async function runProgram(command, args, timeoutMs) {
  const child = start(command, args);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => (text += chunk));
  const ended = new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve(text) : reject(new Error(`${command} left with ${code}: ${text}`)),
    );
  });
  try {
    return await within(timeoutMs, ended, () => `${command} ${args.join(' ')} does not end`);
  } finally {
    child.kill('SIGKILL');
  }
}

/** The outcome of a promise, or an error when it takes too long. */
export async function within(timeoutMs, promise, describe) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`after ${timeoutMs} ms: ${describe()}`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function start(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}

async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await within(5000, exited, () => 'still there').catch(() => child.kill('SIGKILL'));
}
