import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { GRPCInferenceService } from '../../shared/proto/generated/grpc_service_pb.ts';
import { Health } from '../../shared/proto/generated/health_pb.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { connectGrpc, type GrpcTestClient, pathOf, refusalOf } from '../support/grpc-server.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { frame, frameHead, RawGrpcClient } from '../support/raw-grpc.ts';
import { startRedis, until } from '../support/redis.ts';
import { makeOneInstanceSlow } from '../support/slow-model.ts';

const { method } = GRPCInferenceService;
const MiB = 1024 * 1024;
/** One unit is some 50 ms of work. */
const SHORT = 20;
const SIMPLE = {
  modelName: 'simple',
  inputs: [
    { name: 'INPUT0', datatype: 'INT32', shape: [1n, 16n] },
    { name: 'INPUT1', datatype: 'INT32', shape: [1n, 16n] },
  ],
  rawInputContents: [new Uint8Array(64), new Uint8Array(64)],
};

let folder = '';
const clients: GrpcTestClient[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  makeFixtureRepository(folder, ['simple']);
  makeOneInstanceSlow(folder);
});
afterAll(() => rm(folder, { recursive: true, force: true }));
afterEach(() => {
  for (const client of clients.splice(0)) client.raw.close();
});

test('says where it listens, and serves what HTTP serves', async () => {
  const serve = await start();
  const client = connect(serve);
  expect(await client.call(Health.method.check, {})).toMatchObject({ status: 1 });
  expect((await client.call(method.modelInfer, SIMPLE)).outputs).toHaveLength(2);
  const { model_stats: rows } = (await (await fetch(`${serve.url}/v2/models/simple/stats`)).json()) as Rows;
  const { modelStats } = await client.call(method.modelStatistics, { name: 'simple' });
  expect(modelStats[0]?.inferenceStats?.success?.ns).toBe(BigInt(rows[0]!.inference_stats.success.ns));
  expect(await serve.stop()).toBe(0);
});

test('serves gRPC alone, HTTP alone, and refuses to serve nothing', async () => {
  const grpcOnly = await start('--allow-http=false');
  expect(grpcOnly.url).toBe('');
  expect(await connect(grpcOnly).call(method.serverReady, {})).toMatchObject({ ready: true });
  expect(await grpcOnly.stop()).toBe(0);
  const httpOnly = await start('--allow-grpc=false');
  expect(httpOnly.grpcAddress).toBe('');
  expect(await httpOnly.stop()).toBe(0);
  const none = await runMillrace(['serve', `--model-repository=${folder}`, '--allow-http=false', '--allow-grpc=false']);
  expect(none.code).toBe(2);
  expect(none.stderr).toContain('nothing would be served');
});

test('keeps restricted methods for those who know the metadata', async () => {
  const serve = await start('--grpc-restricted-protocol=statistics,logging:who=me');
  const client = connect(serve);
  expect((await refusalOf(client.call(method.modelStatistics, {}))).code).toBe(status.UNAVAILABLE);
  const headers = { 'triton-grpc-protocol-who': 'me' };
  expect((await client.call(method.modelStatistics, {}, { headers })).modelStats).not.toHaveLength(0);
  expect(await client.call(method.serverLive, {})).toMatchObject({ live: true });
  expect(await serve.stop()).toBe(0);
});

test('changes what is logged while it runs', async () => {
  const serve = await start('--log-info=true');
  await connect(serve).call(method.logSettings, { settings: { log_info: boolParam(false) } });
  expect(await serve.stop()).toBe(0);
  expect(serve.stderr()).not.toContain('shutting down');
  const other = await start();
  await connect(other).call(method.logSettings, { settings: { log_info: boolParam(true) } });
  expect(await other.stop()).toBe(0);
  expect(other.stderr()).toContain('shutting down');
});

describe.each(['serve', 'producer'] as const)('at SIGTERM %s', (command) => {
  test('answers what runs, ends streams, takes nothing new, and leaves with 0', async () => {
    const { process: millrace, stop } = await startEither(command);
    try {
      const client = connect(millrace);
      const idle = client.stream(method.modelStreamInfer);
      idle.send(SIMPLE);
      expect((await idle.next()).errorMessage).toBe('');
      const running = client.call(method.modelInfer, slow(SHORT));
      const stream = client.stream(method.modelStreamInfer);
      stream.send(slow(SHORT + 1));
      // Answered on the same connection, so that both have arrived.
      await client.call(method.serverLive, {});
      millrace.kill('SIGTERM');
      expect((await idle.status).code).toBe(status.UNAVAILABLE);
      expect((await refusalOf(connect(millrace).call(method.serverLive, {}))).code).toBe(status.UNAVAILABLE);
      expect((await running).outputs).not.toHaveLength(0);
      expect((await stream.next()).errorMessage).toBe('');
      expect((await stream.status).code).toBe(status.UNAVAILABLE);
      expect(await millrace.exited).toBe(0);
    } finally {
      await stop();
    }
  });
});

test('hostile clients cost bounded memory, and the others are served', async () => {
  const serve = await start(`--max-inflight-bytes=${64 * MiB}`);
  const address = Number(serve.grpcAddress.split(':').at(-1));
  const before = await residentBytes(serve);
  const raw = await RawGrpcClient.connect(address);
  const infer = pathOf(method.modelInfer);
  const bomb = frame(gzipSync(Buffer.alloc(400 * MiB)), true);
  const bombs = Array.from({ length: 30 }, () => raw.open(infer, { 'grpc-encoding': 'gzip' }));
  for (const { stream } of bombs) stream.resume().end(bomb);
  for (const { ended } of bombs) expect(await ended).toMatchObject({ status: status.RESOURCE_EXHAUSTED });
  const giants = Array.from({ length: 200 }, () => raw.open(infer));
  for (const { stream } of giants) stream.resume().write(Buffer.concat([frameHead(500 * MiB), Buffer.alloc(MiB)]));
  const idle = Array.from({ length: 3000 }, () => raw.open(pathOf(method.modelStreamInfer)));
  await Promise.race(giants.map(({ ended }) => ended));
  expect(await residentBytes(serve)).toBeLessThan(before + 450 * MiB);
  raw.close();
  await Promise.all(idle.slice(0, 10).map(({ ended }) => ended));
  const client = connect(serve);
  await until('the bytes are given back', async () => {
    const answer = await client.call(method.modelInfer, SIMPLE).catch(() => undefined);
    return answer !== undefined;
  });
  expect(await serve.stop()).toBe(0);
});

interface Rows {
  readonly model_stats: readonly { readonly inference_stats: { readonly success: { readonly ns: number } } }[];
}

function start(...options: string[]): Promise<MillraceProcess> {
  return startMillrace(['serve', `--model-repository=${folder}`, '--log-info=false', ...options]);
}

async function startEither(command: 'serve' | 'producer') {
  if (command === 'serve') return { process: await start(), stop: () => Promise.resolve() };
  const redis = await startRedis();
  const worker = await startMillrace([
    'worker',
    `--redis=${redis.url}`,
    `--model-repository=${folder}`,
    '--log-info=false',
  ]);
  const producer = await startMillrace(['producer', `--redis=${redis.url}`, '--log-info=false']);
  return {
    process: producer,
    stop: async () => {
      await worker.stop();
      await redis.stop();
    },
  };
}

function connect({ grpcAddress }: MillraceProcess): GrpcTestClient {
  const client = connectGrpc(grpcAddress);
  clients.push(client);
  return client;
}

async function residentBytes({ pid }: MillraceProcess): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)![1]) * 1024;
}

/** A batch of its own: the model takes four rows at most. */
function slow(units: number) {
  const inputs = [
    { name: 'x', datatype: 'INT64', shape: [4n, 1n], contents: { int64Contents: [BigInt(units), 1n, 1n, 1n] } },
  ];
  return { modelName: 'slow', inputs };
}

function boolParam(value: boolean) {
  return { parameterChoice: { case: 'boolParam' as const, value } };
}
