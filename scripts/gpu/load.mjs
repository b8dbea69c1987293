// Clients that send the same request over and over, in processes of their own.
import { spawn } from 'node:child_process';
import { Agent, request } from 'node:http';
import { availableParallelism } from 'node:os';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { rounded } from './report.mjs';

const MAX_PROCESSES = 8;
const REQUEST_MS = 30_000;

/**
 * @param load urls, path, file (the body), jsonLength, rows, clients, warmMs, forMs
 * @returns rows a second, latencies, and how many requests were refused or failed
 */
export async function applyLoad(load) {
  const processes = Math.min(load.clients, MAX_PROCESSES, Math.max(1, availableParallelism() >> 1));
  const parts = Array.from({ length: processes }, (_, index) => ({
    ...load,
    clients: Math.floor(load.clients / processes) + (index < load.clients % processes ? 1 : 0),
    urls: [...load.urls.slice(index % load.urls.length), ...load.urls.slice(0, index % load.urls.length)],
  }));
  const found = await Promise.all(parts.map(runChild));
  const times = found.flatMap(({ times: each }) => each).sort((a, b) => a - b);
  const failures = found.reduce((sum, { failures: count }) => sum + count, 0);
  const failure = found.find(({ failure: text }) => text)?.failure;
  return {
    clients: load.clients,
    rowsEach: load.rows,
    answers: times.length,
    rowsPerSecond: rounded((times.length * load.rows * 1000) / load.forMs),
    p50Ms: rounded(times[times.length >> 1]),
    p99Ms: rounded(times[Math.floor(times.length * 0.99)]),
    failures,
    ...(failure && { failure }),
  };
}

function runChild(part) {
  const limitMs = part.warmMs + part.forMs + REQUEST_MS;
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(part)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: limitMs,
      killSignal: 'SIGKILL',
    });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
    child.once('error', reject);
    child.once('close', (code, signal) =>
      code === 0 ? resolve(JSON.parse(text)) : reject(new Error(`the clients ended with ${signal ?? code}`)),
    );
  });
}

async function beClients({ urls, path, file, jsonLength, clients, warmMs, forMs }) {
  const body = readFileSync(file);
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const headers = { 'content-length': body.length, 'inference-header-content-length': jsonLength };
  const fromMs = performance.now() + warmMs;
  const untilMs = fromMs + forMs;
  const times = [];
  let failures = 0;
  let failure;
  const send = (url) =>
    new Promise((resolve) => {
      const call = request(url + path, { method: 'POST', agent, headers, timeout: REQUEST_MS }, (response) => {
        let text = '';
        if (response.statusCode === 200) response.resume();
        else response.setEncoding('latin1').on('data', (piece) => (text = (text + piece).slice(0, 500)));
        response.once('close', () =>
          resolve(response.statusCode === 200 ? undefined : `${response.statusCode} ${text}`),
        );
      });
      call.once('timeout', () => call.destroy(new Error('no answer in time')));
      call.once('error', (error) => resolve(error.message));
      call.end(body);
    });
  const beOne = async (number) => {
    while (performance.now() < untilMs) {
      const startedMs = performance.now();
      const problem = await send(urls[number % urls.length]);
      const nowMs = performance.now();
      if (nowMs < fromMs || nowMs > untilMs) continue;
      if (problem === undefined) times.push(nowMs - startedMs);
      else {
        failures += 1;
        failure ??= problem;
        await new Promise((resolve) => setTimeout(resolve, 20)); // a server that refuses is not to be flooded
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, number) => beOne(number)));
  process.stdout.write(JSON.stringify({ times, failures, failure }), () => process.exit(0));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await beClients(JSON.parse(process.argv[2]));
