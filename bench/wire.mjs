// `node bench/wire.mjs`: what the protocols cost. An identity model behind `serve` beside a bare server that sends the same
// bytes back, over HTTP (Fastify) and gRPC (grpc-js), same client, turn by turn; then the memory of many big requests at once.
// Needs wrk, Linux and ../shared/conformance. Writes bench/results/wire.json and .md.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { create, toBinary } from '@bufbuild/protobuf';
import fastify from 'fastify';
import { root } from '../scripts/install.mjs';

const SECONDS = Number(process.env.SECONDS ?? 6);
const REPEATS = Number(process.env.REPEATS ?? 3);
const CONNECTIONS = 8;
const SIZES = [150_528, 602_112];
const BIG = { requests: 64, bytes: 16 * 1024 * 1024 };
const INFER = '/inference.GRPCInferenceService/ModelInfer';
const WINDOW = { 'grpc-node.flow_control_window': 8 * 1024 * 1024 };
const LIMITS = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };
const asItIs = (bytes) => bytes;

const roles = { 'echo-http': echoHttp, 'echo-grpc': echoGrpc, 'load-grpc': loadGrpc };
const [role] = process.argv.slice(2);
if (role === undefined) await measure();
else await roles[role](...process.argv.slice(3));

async function echoHttp() {
  const app = fastify({ bodyLimit: 64 * 1024 * 1024 });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post('/*', (request, reply) => reply.header('content-type', 'application/octet-stream').send(request.body));
  await app.listen({ host: '127.0.0.1', port: 0 });
  console.log(app.server.address().port);
}

async function echoGrpc() {
  const server = new grpc.Server({ ...LIMITS, ...WINDOW });
  const method = { path: INFER, requestStream: false, responseStream: false };
  const codec = {
    requestSerialize: asItIs,
    requestDeserialize: asItIs,
    responseSerialize: asItIs,
    responseDeserialize: asItIs,
  };
  server.addService({ infer: { ...method, ...codec } }, { infer: (call, callback) => callback(null, call.request) });
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (_error, port) => console.log(port));
}

/** Prints how many answers came. */
async function loadGrpc(port, file, seconds) {
  const body = readFileSync(file);
  const clients = Array.from(
    { length: 2 },
    (_, index) =>
      new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), {
        ...LIMITS,
        ...WINDOW,
        'grpc.use_local_subchannel_pool': 1,
        'bench.channel': index,
      }),
  );
  const endMs = performance.now() + seconds * 1000;
  let answers = 0;
  const worker = async (client) => {
    while (performance.now() < endMs) {
      await new Promise((resolve, reject) => {
        client.makeUnaryRequest(INFER, asItIs, asItIs, body, (error) => (error ? reject(error) : resolve()));
      });
      answers += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, index) => worker(clients[index % clients.length])));
  console.log(answers);
  clients.forEach((client) => client.close());
}

async function measure() {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-wire-'));
  const rows = [];
  try {
    const bodies = await writeBodies(folder);
    const millrace = await startMillrace(folder);
    const echoes = { http: await startEcho('echo-http'), grpc: await startEcho('echo-grpc') };
    for (const protocol of ['http', 'grpc']) {
      const load = protocol === 'http' ? runWrk : runGrpcClient;
      for (const size of SIZES) {
        const sums = { millrace: newSum(), echo: newSum() };
        for (let repeat = 0; repeat < REPEATS; repeat++) {
          for (const [name, server] of [
            ['echo', echoes[protocol]],
            ['millrace', millrace],
          ]) {
            await load(server[protocol], bodies[size], 1);
            const before = cpuMs(server.pid);
            const answers = await load(server[protocol], bodies[size], SECONDS);
            sums[name].answers += answers;
            sums[name].cpuMs += cpuMs(server.pid) - before;
          }
        }
        rows.push(rowOf(protocol, size, sums));
        console.log(rows.at(-1));
      }
    }
    const memory = await measureMemory(millrace);
    for (const { process: child } of [millrace, echoes.http, echoes.grpc]) child.kill();
    writeResults(rows, memory);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const newSum = () => ({ answers: 0, cpuMs: 0 });

function rowOf(protocol, size, { millrace, echo }) {
  const rate = (sum) => sum.answers / (SECONDS * REPEATS);
  const cpu = (sum) => sum.cpuMs / sum.answers;
  return {
    protocol,
    bytes: size,
    millracePerSecond: round(rate(millrace)),
    echoPerSecond: round(rate(echo)),
    rateRatio: round(rate(millrace) / rate(echo)),
    millraceCpuMs: round(cpu(millrace)),
    echoCpuMs: round(cpu(echo)),
    cpuRatio: round(cpu(echo) / cpu(millrace)),
  };
}

/** Bodies of one FP32 tensor, as files: the HTTP one with its JSON in front, the gRPC one as a message. */
async function writeBodies(folder) {
  const { ModelInferRequestSchema } = await import('../dist/shared/proto/generated/grpc_service_pb.js');
  const bodies = {};
  for (const size of SIZES) {
    const data = Buffer.alloc(size, 1);
    const { json, binary } = httpRequest(data);
    const message = create(ModelInferRequestSchema, {
      modelName: 'identity_fp32',
      inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1n, BigInt(size / 4)] }],
      rawInputContents: [binary],
    });
    bodies[size] = { http: join(folder, `${size}.http`), grpc: join(folder, `${size}.grpc`), jsonLength: json.length };
    writeFileSync(bodies[size].http, Buffer.concat([json, binary]));
    writeFileSync(bodies[size].grpc, toBinary(ModelInferRequestSchema, message));
  }
  return bodies;
}

function httpRequest(binary) {
  const input = { name: 'INPUT', datatype: 'FP32', shape: [1, binary.length / 4] };
  const json = JSON.stringify({
    inputs: [{ ...input, parameters: { binary_data_size: binary.length } }],
    parameters: { binary_data_output: true },
  });
  return { json: Buffer.from(json), binary };
}

async function startMillrace(folder) {
  symlinkSync(join(root, '..', 'shared', 'conformance', 'models', 'identity_fp32'), join(folder, 'identity_fp32'));
  const args = ['serve', `--model-repository=${folder}`, '--http-port=0', '--grpc-port=0', '--metrics-port=0'];
  const limits = ['--max-inflight-bytes=8589934592', '--log-info=false'];
  const child = spawn(process.execPath, [join(root, 'dist', 'cli', 'main.js'), ...args, ...limits], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    const httpPort = /HTTP\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(text)?.[1];
    const grpcPort = /gRPC\s+\S*127\.0\.0\.1:(\d+)/.exec(text)?.[1];
    if (httpPort && grpcPort) return { process: child, pid: child.pid, http: httpPort, grpc: grpcPort };
  }
  throw new Error(`serve did not start: ${text}`);
}

async function startEcho(echoRole) {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), echoRole], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const chunk of child.stdout) {
    const port = String(chunk).trim();
    return { process: child, pid: child.pid, http: port, grpc: port };
  }
  throw new Error(`${echoRole} did not start`);
}

function runWrk(port, body, seconds) {
  const script = join(tmpdir(), `millrace-wire-${process.pid}.lua`);
  writeFileSync(
    script,
    `wrk.method = "POST"
local file = io.open("${body.http}", "rb")
wrk.body = file:read("*a")
file:close()
wrk.headers["Inference-Header-Content-Length"] = "${body.jsonLength}"
`,
  );
  const url = `http://127.0.0.1:${port}/v2/models/identity_fp32/infer`;
  const text = execFileSync('wrk', ['-t1', `-c${CONNECTIONS}`, `-d${seconds}`, '-s', script, url], {
    encoding: 'utf8',
  });
  rmSync(script);
  if (/Non-2xx/.test(text)) throw new Error(text);
  return Number(/(\d+) requests in/.exec(text)[1]);
}

function runGrpcClient(port, body, seconds) {
  const args = [fileURLToPath(import.meta.url), 'load-grpc', port, body.grpc, String(seconds)];
  return Number(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

/** Peak memory above rest while many big requests are in hand at once, as a multiple of their bytes. */
async function measureMemory({ pid, http: port }) {
  const { json, binary } = httpRequest(Buffer.alloc(BIG.bytes, 1));
  const before = status(pid, 'VmRSS');
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  await Promise.all(
    Array.from({ length: BIG.requests }, () => {
      const headers = {
        'content-length': json.length + binary.length,
        'inference-header-content-length': json.length,
      };
      return new Promise((resolve, reject) => {
        const request = http.request(
          { port, method: 'POST', path: '/v2/models/identity_fp32/infer', headers, agent: false },
          (response) => {
            if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
            response.resume().on('end', resolve);
          },
        );
        request.on('error', reject);
        request.write(json);
        request.end(binary);
      });
    }),
  );
  const peak = status(pid, 'VmHWM') - before;
  return {
    requests: BIG.requests,
    bytesEach: BIG.bytes,
    peakBytes: peak,
    timesTheirBytes: round(peak / (BIG.requests * BIG.bytes)),
  };
}

/** A figure of /proc/<pid>/status, in bytes. */
function status(pid, key) {
  return Number(new RegExp(`${key}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;
}

/** User and system time of a process so far, at the usual 100 ticks a second. */
function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function round(value) {
  return Number(value.toPrecision(3));
}

function writeResults(rows, memory) {
  const [{ model }] = cpus();
  const machine = {
    cpu: model,
    cores: cpus().length,
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  };
  const results = join(root, 'bench', 'results');
  writeFileSync(join(results, 'wire.json'), `${JSON.stringify({ machine, rows, memory }, null, 2)}\n`);
  const lines = rows.map(
    (row) =>
      `| ${row.protocol} | ${row.bytes} | ${row.millracePerSecond} | ${row.echoPerSecond} | ${row.rateRatio} | ${row.millraceCpuMs} | ${row.echoCpuMs} | ${row.cpuRatio} |`,
  );
  const text = `An identity model behind \`serve\` beside a bare echo of the same bytes (Fastify, grpc-js), ${CONNECTIONS} requests at once; ${machine.cores} cores of ${machine.cpu}, Node ${machine.node}, ${machine.date}.

| protocol | bytes | Millrace, req/s | echo, req/s | ratio | Millrace, CPU ms | echo, CPU ms | ratio |
| --- | --- | --- | --- | --- | --- | --- | --- |
${lines.join('\n')}

${memory.requests} requests of ${memory.bytesEach / 1024 / 1024} MiB at once: peak memory above rest ${memory.timesTheirBytes} times their bytes.
`;
  writeFileSync(join(results, 'wire.md'), text);
  console.log(text);
}
