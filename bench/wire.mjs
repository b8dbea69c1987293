// `node bench/wire.mjs`: what the protocols cost. An identity model behind `serve` beside a bare server that sends the same
// bytes back, over HTTP (Fastify) and gRPC (grpc-js), by turns in one run; then the memory of many big requests at once.
// The bare server runs twice: as Node starts it, and with the heap setting that Millrace gives itself (cli/launch.ts).
//   SECONDS=6 REPEATS=5 node bench/wire.mjs     how long a turn takes, and how many there are
// Needs Linux and wrk. Writes bench/results/wire.json and .md.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const { runProgram, startServer } = await import('./wire/children.mjs');
const { writeIdentityModel } = await import('./wire/identity-model.mjs');
const { measureMemory } = await import('./wire/memory.mjs');
const { cpuMs, residentBytes } = await import('./wire/process-figures.mjs');
const { grpcRequest, HTTP_PATH, httpRequest } = await import('./wire/requests.mjs');

const SECONDS = Number(process.env.SECONDS ?? 6);
const REPEATS = Number(process.env.REPEATS ?? 5);
const CONNECTIONS = 8;
const SIZES = [150_528, 602_112];
const BIG = { requests: 64, bytesEach: 16 * 1024 * 1024 };
const HEAP_OPTION = '--heap-growing-percent=300';

const folder = mkdtempSync(join(tmpdir(), 'millrace-wire-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
writeIdentityModel(join(folder, 'models'));
const bodies = writeBodies();
const rows = [];
for (const protocol of ['http', 'grpc']) for (const bytes of SIZES) rows.push(await compare(protocol, bytes));
const memory = [];
for (const protocol of ['http', 'grpc']) memory.push(await memoryOf(protocol));
writeResults();
process.exit(0);

/** Each comparison has servers of its own, so that none inherits the heap that another one left. */
async function compare(protocol, bytes) {
  const servers = {
    bare: await startEcho(protocol, []),
    tuned: await startEcho(protocol, [HEAP_OPTION]),
    millrace: await startMillrace(),
  };
  const idleBytes = residentBytes(servers.millrace.pid);
  const turns = { bare: [], tuned: [], millrace: [] };
  for (const server of Object.values(servers)) await load(server, protocol, bytes, 2);
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const [name, server] of Object.entries(servers)) {
      const before = cpuMs(server.pid);
      const answers = await load(server, protocol, bytes, SECONDS);
      turns[name].push({ perSecond: answers / SECONDS, cpuMs: (cpuMs(server.pid) - before) / answers });
    }
  }
  const busyBytes = residentBytes(servers.millrace.pid);
  for (const server of Object.values(servers)) await server.stop();
  const row = rowOf(protocol, bytes, turns, { idleBytes, busyBytes });
  console.log(JSON.stringify(row));
  return row;
}

/** The medians of all turns; ratios are those of turns that followed each other. Above 1 Millrace does better. */
function rowOf(protocol, bytes, { bare, tuned, millrace }, { idleBytes, busyBytes }) {
  const ratios = (others) => ({
    perSecond: round(median(millrace.map((turn, index) => turn.perSecond / others[index].perSecond))),
    cpu: round(median(millrace.map((turn, index) => others[index].cpuMs / turn.cpuMs))),
  });
  return {
    protocol,
    bytes,
    millrace: medians(millrace),
    bare: { ...medians(bare), ratio: ratios(bare) },
    tuned: { ...medians(tuned), ratio: ratios(tuned) },
    idleMiB: mebibytes(idleBytes),
    busyMiB: mebibytes(busyBytes),
  };
}

function medians(turns) {
  return {
    perSecond: round(median(turns.map((turn) => turn.perSecond))),
    cpuMs: round(median(turns.map((turn) => turn.cpuMs))),
  };
}

async function memoryOf(protocol) {
  const server = await startMillrace();
  await load(server, protocol, SIZES[0], 1);
  const figures = await measureMemory(server, protocol, BIG);
  await server.stop();
  console.log(JSON.stringify(figures));
  return figures;
}

function writeBodies() {
  const files = {};
  for (const size of SIZES) {
    const tensor = Buffer.alloc(size, 1);
    const { body, jsonLength } = httpRequest(tensor);
    const script = join(folder, `${size}.lua`);
    files[size] = { http: join(folder, `${size}.http`), grpc: join(folder, `${size}.grpc`), script };
    writeFileSync(files[size].http, body);
    writeFileSync(files[size].grpc, grpcRequest(tensor));
    writeFileSync(
      script,
      `wrk.method = "POST"
local file = io.open("${files[size].http}", "rb")
wrk.body = file:read("*a")
file:close()
wrk.headers["Inference-Header-Content-Length"] = "${jsonLength}"
`,
    );
  }
  return files;
}

async function startMillrace() {
  const args = ['serve', `--model-repository=${join(folder, 'models')}`, '--log-info=false'];
  const ports = ['--http-port=0', '--grpc-port=0', '--metrics-port=0', `--max-inflight-bytes=${8 * 1024 ** 3}`];
  const main = join(root, 'dist', 'cli', 'main.js');
  const { found, ...server } = await startServer(process.execPath, [main, ...args, ...ports], (lines) => {
    const text = lines.join('\n');
    const http = /HTTP\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(text)?.[1];
    const grpc = /gRPC\s+127\.0\.0\.1:(\d+)/.exec(text)?.[1];
    return http && grpc ? { http, grpc } : undefined;
  });
  return { ...server, ports: found };
}

async function startEcho(protocol, options) {
  const program = fileURLToPath(new URL('wire/echo.mjs', import.meta.url));
  const { found, ...server } = await startServer(process.execPath, [...options, program, protocol], ([port]) => port);
  return { ...server, ports: { [protocol]: found } };
}

/** Returns how many answers came. */
async function load({ ports }, protocol, bytes, seconds) {
  const timeoutMs = (seconds + 30) * 1000;
  if (protocol === 'grpc') {
    const program = fileURLToPath(new URL('wire/load-grpc.mjs', import.meta.url));
    const args = [program, ports.grpc, bodies[bytes].grpc, String(seconds), String(CONNECTIONS)];
    return Number(await runProgram(process.execPath, args, timeoutMs));
  }
  const url = `http://127.0.0.1:${ports.http}${HTTP_PATH}`;
  const args = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}`, '-s', bodies[bytes].script, url];
  const text = await runProgram('wrk', args, timeoutMs);
  if (/Non-2xx|Socket errors/.test(text)) throw new Error(text);
  return Number(/(\d+) requests in/.exec(text)[1]);
}

function writeResults() {
  const [{ model }] = cpus();
  const machine = {
    cpu: model,
    cores: cpus().length,
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  };
  const results = join(root, 'bench', 'results', 'wire');
  const run = { seconds: SECONDS, repeats: REPEATS, connections: CONNECTIONS, tunedWith: HEAP_OPTION };
  writeFileSync(`${results}.json`, `${JSON.stringify({ machine, run, rows, memory }, null, 2)}\n`);
  const lines = rows.map((row) =>
    [
      row.protocol === 'http' ? 'HTTP, Fastify' : 'gRPC, grpc-js',
      row.bytes,
      `${row.millrace.perSecond} / ${row.bare.perSecond} / ${row.tuned.perSecond}`,
      `**${row.bare.ratio.perSecond}** / ${row.tuned.ratio.perSecond}`,
      `${row.millrace.cpuMs} / ${row.bare.cpuMs} / ${row.tuned.cpuMs}`,
      `**${row.bare.ratio.cpu}** / ${row.tuned.ratio.cpu}`,
      `${row.idleMiB} / ${row.busyMiB}`,
    ].join(' | '),
  );
  const text = `${Object.entries(machine)
    .map(([key, value]) => `${key}: ${value}`)
    .join(' · ')}

An identity model behind \`serve\` beside a bare server that sends the same bytes back, as Node starts it ("bare") and with \`${HEAP_OPTION}\` ("tuned"), which Millrace sets for itself; ${CONNECTIONS} requests at once, ${REPEATS} turns of ${SECONDS} s each, one after the other. A ratio above 1 means that Millrace does better.

| protocol, bare server | bytes of tensor | req/s: Millrace / bare / tuned | ratio to bare / tuned | CPU ms a request: Millrace / bare / tuned | ratio to bare / tuned | Millrace's MiB, idle / after load |
| --- | --- | --- | --- | --- | --- | --- |
${lines.map((line) => `| ${line} |`).join('\n')}

${memory.map(memoryLine).join('\n')}
`;
  writeFileSync(`${results}.md`, text);
  console.log(text);
}

function memoryLine({ protocol, requests, bytesEach, restBytes, ratio }) {
  const name = protocol === 'http' ? 'HTTP' : 'gRPC';
  return `- ${requests} requests of ${mebibytes(bytesEach)} MiB at once over ${name}: at most ${round(ratio)} times their bytes above the ${mebibytes(restBytes)} MiB before.`;
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function round(value) {
  return Number(value.toPrecision(3));
}

function mebibytes(bytes) {
  return Math.round(bytes / 1024 / 1024);
}
