import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { GRPCInferenceService } from '../../shared/proto/generated/grpc_service_pb.ts';
import { makeFixtureRepository } from '../fixtures/make-models.ts';
import { connectGrpc, type GrpcTestClient, refusalOf } from '../support/grpc-server.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { until } from '../support/redis.ts';
import { scrape } from '../support/scrape.ts';
import { keysFileOf } from '../support/tenants.ts';

const TENANTS = {
  shop: { key: 'shop-key', models: ['rowsum'], requests_per_second: 0.1, burst: 3 },
  lab: { key: 'lab-key' },
};
const INPUTS = [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }];

let folder = '';
let keysFile = '';
let serve: MillraceProcess;
let grpc: GrpcTestClient;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-e2e-'));
  makeFixtureRepository(join(folder, 'models'), ['rowsum', 'simple']);
  keysFile = join(folder, 'keys.json');
  await writeFile(keysFile, keysFileOf(TENANTS));
  const options = [`--model-repository=${join(folder, 'models')}`, `--api-keys-file=${keysFile}`, '--log-info=false'];
  serve = await startMillrace(['serve', ...options]);
  grpc = connectGrpc(serve.grpcAddress);
});
afterAll(async () => {
  grpc.raw.close();
  await serve.stop();
  await rm(folder, { recursive: true, force: true });
});

function infer(headers: Record<string, string>): Promise<Response> {
  const body = JSON.stringify({ inputs: INPUTS });
  return fetch(`${serve.url}/v2/models/rowsum/infer`, { method: 'POST', headers, body });
}

test('over HTTP a key opens, none or a wrong one does not, and health is open', async () => {
  expect((await infer({})).status).toBe(401);
  expect((await infer({ authorization: 'Bearer nothing' })).status).toBe(401);
  expect((await infer({ authorization: 'Bearer lab-key' })).status).toBe(200);
  expect((await infer({ 'X-API-Key': 'lab-key' })).status).toBe(200);
  expect((await fetch(`${serve.url}/v2/health/ready`)).status).toBe(200);
});

test('over gRPC the same keys travel as metadata', async () => {
  const { method } = GRPCInferenceService;
  const shown = (headers: Record<string, string>, name = 'rowsum') =>
    grpc.call(method.modelMetadata, { name }, { headers });
  expect((await grpc.call(method.serverReady, {})).ready).toBe(true);
  expect((await grpc.call(method.modelReady, { name: 'rowsum' })).ready).toBe(true);
  expect(await refusalOf(shown({}))).toMatchObject({ code: 16, details: /no API key/ });
  expect(await refusalOf(shown({ 'x-api-key': 'nothing' }))).toMatchObject({ code: 16 });
  expect((await shown({ authorization: 'Bearer shop-key' })).name).toBe('rowsum');
  expect((await shown({ 'x-api-key': 'lab-key' }, 'simple')).name).toBe('simple');
  expect(await refusalOf(shown({ 'x-api-key': 'shop-key' }, 'simple'))).toMatchObject({
    code: 7,
    details: "the API key of shop does not open model 'simple'",
  });
});

test('a tenant keeps to its rate and is told when to come again, over both protocols', async () => {
  const key = { 'x-api-key': 'shop-key' };
  for (let i = 0; i < 3; i++) expect((await infer(key)).status).toBe(200);
  const refused = await infer(key);
  expect(refused.status).toBe(429);
  const seconds = Number(refused.headers.get('retry-after'));
  expect(seconds).toBeGreaterThan(1);
  expect(seconds).toBeLessThanOrEqual(10);
  const contents = { fp32Contents: [1] };
  const request = { modelName: 'rowsum', inputs: [{ name: 'x', datatype: 'FP32', shape: [1n, 1n], contents }] };
  const { method } = GRPCInferenceService;
  const error = await refusalOf(grpc.call(method.modelInfer, request, { headers: key }));
  expect(error.code).toBe(8);
  const [pushback] = error.metadata.get('grpc-retry-pushback-ms');
  expect(Number(pushback)).toBeGreaterThan(1000);
  expect(Number(pushback)).toBeLessThanOrEqual(10_000);
  await grpc.call(method.modelInfer, request, { headers: { 'x-api-key': 'lab-key' } });
  const samples = await scrape(serve.metricsUrl);
  expect(samples.get('millrace_tenant_requests_total{result="admitted",tenant="shop"}')).toBe(3);
  expect(samples.get('millrace_tenant_requests_total{result="refused",tenant="shop"}')).toBe(2);
});

test('a new file is read while the server runs, and a wrong one changes nothing', async () => {
  await writeFile(keysFile, keysFileOf({ ...TENANTS, late: { key: 'late-key' } }));
  await until('the new key opens', async () => (await infer({ 'x-api-key': 'late-key' })).ok);
  await writeFile(keysFile, '{"tenants": [{}]}');
  await until('the problem is logged', () => serve.stdout().concat(serve.stderr()).includes('tenants[0].name'));
  expect((await infer({ 'x-api-key': 'late-key' })).status).toBe(200);
});

test('millrace api-key makes a key and the entry that opens to it', async () => {
  const { code, stdout } = await runMillrace(['api-key', '--name=new']);
  expect(code).toBe(0);
  const key = /^key +(mr_[\w-]{32})$/m.exec(stdout)![1]!;
  await writeFile(keysFile, /^ +(\{.*\})$/m.exec(stdout)![1]!);
  await until('the new key opens', async () => (await infer({ 'x-api-key': key })).ok);
  expect((await infer({ 'x-api-key': 'late-key' })).status).toBe(401);
});

test('a file that is wrong at start is one clear line', async () => {
  const wrong = join(folder, 'wrong.json');
  await writeFile(wrong, '{"tenants": [\n  {"name": "a",}\n]}');
  const { code, stderr } = await runMillrace([
    'serve',
    `--model-repository=${folder}/models`,
    `--api-keys-file=${wrong}`,
  ]);
  expect(code).toBe(2);
  expect(stderr).toBe('millrace: --api-keys-file: it is not JSON from line 2, column 16 on\n');
});
