import { create } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { beforeEach, expect, test, vi } from 'vitest';
import { GRPCInferenceService, ModelInferRequestSchema } from '../../../shared/proto/generated/grpc_service_pb.ts';
import { FakeDispatcher, fakeModel } from '../../support/fake-dispatcher.ts';
import { type GrpcTestClient, refusalOf, TestGrpcServer } from '../../support/grpc-server.ts';
import { frameHead, RawGrpcClient } from '../../support/raw-grpc.ts';

const { method } = GRPCInferenceService;
const GRACE_MS = 10_000;
const REQUEST = create(ModelInferRequestSchema, {
  modelName: 'plain',
  inputs: [{ name: 'x', datatype: 'FP32', shape: [1n, 1n] }],
  rawInputContents: [new Uint8Array(4)],
});

let dispatcher: FakeDispatcher;
let server: TestGrpcServer;
let client: GrpcTestClient;

beforeEach(async () => {
  dispatcher = new FakeDispatcher([fakeModel('plain')]);
  server = await TestGrpcServer.start(dispatcher);
  client = server.client();
  return () => server.stop();
});

test('answers what is under way, and refuses what is new as unavailable', async () => {
  dispatcher.hold();
  const running = client.call(method.modelInfer, REQUEST);
  await vi.waitFor(() => expect(dispatcher.seen).toHaveLength(1));
  const closed = server.close(GRACE_MS);
  expect((await refusalOf(client.call(method.serverLive, {}))).code).toBe(status.UNAVAILABLE);
  expect((await refusalOf(server.client().call(method.serverLive, {}))).code).toBe(status.UNAVAILABLE);
  dispatcher.letGo();
  expect((await running).outputs).toHaveLength(1);
  await closed;
});

test('answers a call whose message is still on its way', async () => {
  const raw = await RawGrpcClient.connect(server.port);
  const slow = raw.open('/inference.GRPCInferenceService/ServerLive');
  slow.stream.resume();
  slow.stream.write(frameHead(0).subarray(0, 1));
  await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBeGreaterThan(0));
  const closed = server.close(GRACE_MS);
  slow.stream.end(frameHead(0).subarray(1));
  expect(await slow.ended).toMatchObject({ status: 0 });
  await closed;
  raw.close();
});

test('ends idle streams, and streams with requests after their answers, as unavailable', async () => {
  const idle = client.stream(method.modelStreamInfer);
  idle.send(REQUEST);
  await idle.next();
  dispatcher.hold();
  const busy = client.stream(method.modelStreamInfer);
  busy.send(REQUEST);
  busy.send(REQUEST);
  await vi.waitFor(() => expect(dispatcher.seen).toHaveLength(3));
  const closed = server.close(GRACE_MS);
  expect(await idle.status).toMatchObject({ code: status.UNAVAILABLE, details: 'the server is shutting down' });
  dispatcher.letGo();
  for (let i = 0; i < 2; i++) expect((await busy.next()).inferResponse?.outputs).toHaveLength(1);
  expect((await busy.status).code).toBe(status.UNAVAILABLE);
  await closed;
});

test('cuts what is left when the grace is over', async () => {
  dispatcher.ignoresCancel = true;
  dispatcher.hold();
  const running = refusalOf(client.call(method.modelInfer, REQUEST));
  await vi.waitFor(() => expect(dispatcher.seen).toHaveLength(1));
  await server.close(50);
  expect([status.UNAVAILABLE, status.CANCELLED]).toContain((await running).code);
  expect(dispatcher.seen[0]?.call.error).toBeDefined();
  dispatcher.letGo();
});

test('a server without calls closes at once, and again without harm', async () => {
  await client.call(method.serverLive, {});
  await server.close(GRACE_MS);
  await server.close(GRACE_MS);
});
