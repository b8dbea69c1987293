// A process that holds sessions and says so: `holder.mjs MODEL ROWS`. Obeys `open`, `close`, `run FOR_MS`, one a line of stdin.
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { spawn } from 'node:child_process';
import { createBackend, openModel, repeat, shapeOf, writeModel } from './sessions.mjs';

/** Starts one. `ask` resolves with its answer. */
export function startHolder(model, rows, env = process.env) {
  const program = fileURLToPath(import.meta.url);
  const child = spawn(process.execPath, [program, model, String(rows)], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr = (stderr + text).slice(-1500)));
  const waiting = [];
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.resolve(JSON.parse(line)));
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? code));
  });
  void ended.then((how) => {
    for (const { reject } of waiting.splice(0)) reject(new Error(`the process ended with ${how}: ${stderr.trim()}`));
  });
  return {
    pid: child.pid,
    ended,
    kill: (signal) => child.kill(signal),
    ask: (text) =>
      new Promise((resolve, reject) => {
        waiting.push({
          resolve: (answer) => (answer.error ? reject(new Error(answer.error)) : resolve(answer)),
          reject,
        });
        child.stdin.write(`${text}\n`, () => undefined);
      }),
  };
}

async function hold(model, rows) {
  const path = writeModel(model);
  const backend = createBackend();
  const models = [];
  const acts = {
    open: async () => {
      const startedMs = performance.now();
      models.push(await openModel(backend, path, {}));
      return { openMs: performance.now() - startedMs };
    },
    close: async () => {
      await models.pop().close();
      return {};
    },
    run: async (forMs) => {
      const startedMs = performance.now();
      const { times } = await repeat(models[0].instances[0], shapeOf(model, rows), { runs: Infinity, forMs });
      return { runs: times.length, tookMs: performance.now() - startedMs };
    },
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const [act, argument] = line.split(' ');
    const answer = await acts[act](Number(argument)).catch((error) => ({ error: String(error.message ?? error) }));
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  process.exit(0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await hold(process.argv[2], Number(process.argv[3]));
