import net from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { compressionAlgorithms, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, test, vi } from 'vitest';
import {
  GRPCInferenceService,
  ModelInferRequestSchema,
  ModelMetadataRequestSchema,
  ModelMetadataResponseSchema,
} from '../../../shared/proto/generated/grpc_service_pb.ts';
import { FakeDispatcher, fakeModel } from '../../support/fake-dispatcher.ts';
import { type GrpcServerSetup, pathOf, refusalOf, TestGrpcServer } from '../../support/grpc-server.ts';
import { frame, frameHead, RawGrpcClient } from '../../support/raw-grpc.ts';

const { method } = GRPCInferenceService;
const METADATA = pathOf(method.modelMetadata);
const INFER = pathOf(method.modelInfer);
const STREAM = pathOf(method.modelStreamInfer);
const KiB = 1024;
const MiB = 1024 * KiB;
const ASK = toBinary(ModelMetadataRequestSchema, create(ModelMetadataRequestSchema, { name: 'plain' }));

const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(setup: GrpcServerSetup = {}): Promise<TestGrpcServer> {
  const server = await TestGrpcServer.start(new FakeDispatcher([fakeModel('plain')]), setup);
  closers.push(() => server.stop());
  return server;
}

async function rawClient(server: TestGrpcServer): Promise<RawGrpcClient> {
  const client = await RawGrpcClient.connect(server.port);
  closers.push(() => client.close());
  return client;
}

/** The server has nothing in hand and answers a good request. */
async function expectHealthy(server: TestGrpcServer): Promise<void> {
  await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBe(0), 5000);
  expect(await server.client().call(method.modelMetadata, { name: 'plain' })).toMatchObject({ name: 'plain' });
}

/** One input of FP32 zeros. */
function inferRequest(byteLength: number): Uint8Array {
  const request = {
    modelName: 'plain',
    inputs: [{ name: 'x', datatype: 'FP32', shape: [1n, BigInt(byteLength / 4)] }],
    rawInputContents: [new Uint8Array(byteLength)],
  };
  return toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request));
}

describe('a message', () => {
  test('of the largest size is taken, and one byte more is refused', async () => {
    const server = await start({ settings: { maxMessageBytes: MiB } });
    const padding = inferRequest(MiB - 64).byteLength - (MiB - 64);
    const largest = inferRequest(MiB - 4 * Math.ceil(padding / 4));
    expect(largest.byteLength).toBeGreaterThan(MiB - 8);
    await server.client().send(INFER, largest);
    const refusal = await refusalOf(server.client().send(INFER, new Uint8Array(MiB + 1)));
    expect(refusal.code).toBe(status.RESOURCE_EXHAUSTED);
    await expectHealthy(server);
  });

  test('that is announced as too large is refused at once, and its sender is told to stop', async () => {
    const server = await start({ settings: { maxMessageBytes: MiB } });
    const { stream, ended } = (await rawClient(server)).open(INFER);
    stream.write(frameHead(2 ** 31 - 1));
    const sender = setInterval(() => stream.writable && stream.write(Buffer.alloc(16 * KiB)), 1);
    stream.resume();
    const end = await ended;
    clearInterval(sender);
    expect(end).toMatchObject({ status: status.RESOURCE_EXHAUSTED, resetCode: 0 });
    await expectHealthy(server);
  });

  test('counts as bytes in flight while it arrives, and no more when its sender goes', async () => {
    const server = await start();
    const client = await rawClient(server);
    client.open(INFER).stream.write(Buffer.concat([frameHead(100 * MiB), Buffer.alloc(3 * MiB)]));
    await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBeGreaterThan(3 * MiB), 5000);
    expect(server.services.admission.bytesInFlight).toBeLessThan(4 * MiB);
    client.close();
    await expectHealthy(server);
  });

  test('counts whole while its request runs, whatever it holds beside tensors', async () => {
    const dispatcher = new FakeDispatcher([fakeModel('plain')]);
    dispatcher.hold();
    const server = await TestGrpcServer.start(dispatcher);
    closers.push(() => server.stop());
    const unknownField = Buffer.concat([Buffer.from([0x42, 0x80, 0x80, 0x40]), Buffer.alloc(MiB)]);
    const message = Buffer.concat([inferRequest(4), unknownField]);
    const answer = server.client().send(INFER, message);
    await vi.waitFor(() => expect(dispatcher.seen).toHaveLength(1));
    expect(server.services.admission.bytesInFlight).toBeGreaterThanOrEqual(message.byteLength);
    dispatcher.letGo();
    await answer;
    await expectHealthy(server);
  });

  test('of a method without tensors may not be large, and what is unknown in it is not kept', async () => {
    const server = await start();
    const client = server.client();
    const refusal = await refusalOf(client.send(METADATA, Buffer.alloc(5 * MiB, Buffer.from([0x78, 0x00]))));
    expect(refusal.code).toBe(status.INVALID_ARGUMENT);
    expect(refusal.details).toContain('at most');
    expect(await client.send(METADATA, Buffer.concat([ASK, Buffer.from([0x78, 0x00])]))).toBeInstanceOf(Buffer);
    await expectHealthy(server);
  });

  test('in many small pieces counts as the memory that it takes', async () => {
    const server = await start();
    const { stream } = (await rawClient(server)).open(INFER);
    stream.write(frameHead(MiB));
    // Each in a frame of its own.
    for (let i = 0; i < 300; i++) await new Promise((resolve) => stream.write(Buffer.alloc(1), resolve));
    await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBeGreaterThan(256 * 300), 5000);
  });

  test('that there is no room for is refused, and what was there is given back', async () => {
    const server = await start({ maxBytesInFlight: 2 * MiB });
    const client = await rawClient(server);
    const { stream, ended } = client.open(INFER);
    stream.resume();
    stream.write(Buffer.concat([frameHead(100 * MiB), Buffer.alloc(3 * MiB)]));
    expect(await ended).toMatchObject({ status: status.RESOURCE_EXHAUSTED });
    await expectHealthy(server);
  });

  test('that never becomes complete ends its call', async () => {
    const server = await start({ settings: { receiveTimeoutMs: 300 } });
    const client = await rawClient(server);
    const half = client.open(INFER);
    half.stream.resume();
    half.stream.write(Buffer.concat([frameHead(MiB), Buffer.alloc(10)]));
    const silent = client.open(METADATA);
    silent.stream.resume();
    expect(await half.ended).toMatchObject({ status: status.DEADLINE_EXCEEDED });
    expect(await silent.ended).toMatchObject({ status: status.DEADLINE_EXCEEDED });
    await expectHealthy(server);
  });

  test.each([
    ['complete', false],
    ['compressed', true],
  ])('that is %s, while its client never ends its side, stays counted and ends its call', async (_name, packed) => {
    const server = await start({ settings: { receiveTimeoutMs: 600 } });
    const { admission } = server.services;
    const before = admission.bytesInFlight;
    const message = inferRequest(MiB);
    const open = (await rawClient(server)).open(INFER, packed ? { 'grpc-encoding': 'gzip' } : {});
    open.stream.resume();
    open.stream.write(packed ? frame(gzipSync(message), true) : frame(message));
    await vi.waitFor(() => expect(admission.bytesInFlight).toBeGreaterThanOrEqual(before + message.byteLength));
    expect(await open.ended).toMatchObject({ status: status.DEADLINE_EXCEEDED });
    await vi.waitFor(() => expect(admission.bytesInFlight).toBe(before));
    await expectHealthy(server);
  });
});

describe('a compressed message', () => {
  test.each([
    ['deflate', compressionAlgorithms.deflate],
    ['gzip', compressionAlgorithms.gzip],
  ])('is taken as %s', async (_name, algorithm) => {
    const server = await start();
    const client = server.client({ 'grpc.default_compression_algorithm': algorithm });
    expect(await client.call(method.modelMetadata, { name: 'plain' })).toMatchObject({ name: 'plain' });
    await client.send(INFER, inferRequest(MiB));
    await expectHealthy(server);
  });

  test('is taken in a stream, in order with others', async () => {
    const server = await start();
    const { stream } = (await rawClient(server)).open(STREAM, { 'grpc-encoding': 'gzip' });
    const packed = gzipSync(inferRequest(64 * KiB));
    stream.end(Buffer.concat([frame(packed, true), frame(inferRequest(4)), frame(packed, true)]));
    const sizes: number[] = [];
    let bytes = Buffer.alloc(0);
    for await (const chunk of stream) bytes = Buffer.concat([bytes, chunk as Buffer]);
    for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1)) sizes.push(bytes.readUInt32BE(at + 1));
    expect(sizes.map((size) => size > 64 * KiB)).toEqual([true, false, true]);
  });

  test.each([
    ['of unknown encoding', 'br', Buffer.alloc(20), status.UNIMPLEMENTED],
    ['without an encoding', undefined, gzipSync(ASK), status.INVALID_ARGUMENT],
    ['that is not what it says', 'gzip', Buffer.alloc(20), status.INVALID_ARGUMENT],
    ['that is cut off', 'gzip', gzipSync(ASK).subarray(0, 12), status.INVALID_ARGUMENT],
  ])('%s is refused', async (_what, encoding, bytes, code) => {
    const server = await start();
    const headers = encoding === undefined ? {} : { 'grpc-encoding': encoding };
    const { stream, ended } = (await rawClient(server)).open(METADATA, headers);
    stream.resume();
    stream.end(frame(bytes, true));
    expect(await ended).toMatchObject({ status: code });
    await expectHealthy(server);
  });

  test('that inflates beyond the limit is refused', async () => {
    const server = await start({ settings: { maxMessageBytes: MiB } });
    const { stream, ended } = (await rawClient(server)).open(METADATA, { 'grpc-encoding': 'gzip' });
    stream.resume();
    stream.end(frame(gzipSync(Buffer.alloc(64 * MiB)), true));
    expect(await ended).toMatchObject({ status: status.RESOURCE_EXHAUSTED });
    await expectHealthy(server);
  });

  test('counts as bytes in flight while it inflates', async () => {
    const server = await start({ maxBytesInFlight: 8 * MiB });
    const { stream, ended } = (await rawClient(server)).open(METADATA, { 'grpc-encoding': 'gzip' });
    stream.resume();
    stream.end(frame(gzipSync(Buffer.alloc(64 * MiB)), true));
    expect(await ended).toMatchObject({ status: status.RESOURCE_EXHAUSTED });
    await expectHealthy(server);
  });
});

describe('compressed answers', () => {
  test('of inference go to clients that take them', async () => {
    const server = await start({ settings: { inferResponseCompression: 'high' } });
    const raw = await rawClient(server);
    const sizes: number[] = [];
    for (const accepted of ['identity,deflate,gzip', 'identity']) {
      const { stream, ended } = raw.open(INFER, { 'grpc-accept-encoding': accepted });
      stream.end(frame(inferRequest(64 * KiB)));
      let bytes = 0;
      stream.on('data', (chunk: Buffer) => (bytes += chunk.length));
      expect(await ended).toMatchObject({ status: 0, encoding: accepted === 'identity' ? 'identity' : 'gzip' });
      sizes.push(bytes);
    }
    expect(sizes[0]).toBeLessThan(KiB);
    expect(sizes[1]).toBeGreaterThan(64 * KiB);
    // A real client reads them.
    const answer = await server.client().send(INFER, inferRequest(64 * KiB));
    expect(answer.byteLength).toBeGreaterThan(64 * KiB);
  });

  test('count as bytes in flight while they are being compressed', async () => {
    const data = new Uint8Array(16 * MiB);
    const dispatcher = new FakeDispatcher([fakeModel('plain')]);
    dispatcher.answers.set('plain', () => [{ name: 'y', datatype: 'FP32', shape: [1, data.length / 4], data }]);
    const server = await TestGrpcServer.start(dispatcher, { settings: { inferResponseCompression: 'low' } });
    closers.push(() => server.stop());
    const state = { isAnswered: false };
    const answer = server
      .client()
      .send(INFER, inferRequest(4))
      .finally(() => (state.isAnswered = true));
    // Zeros become a few bytes, so what is counted here is the plain answer.
    let most = 0;
    while (!state.isAnswered) {
      most = Math.max(most, server.services.admission.bytesInFlight);
      await nextTurn();
    }
    expect((await answer).byteLength).toBeGreaterThan(data.byteLength);
    expect(most).toBeGreaterThanOrEqual(data.byteLength);
    await expectHealthy(server);
  });
});

describe('connections and calls', () => {
  test('beyond the bound of open calls are refused, idle streams among them', async () => {
    const server = await start({ settings: { maxOpenCalls: 3 } });
    const client = server.client();
    const streams = [1, 2, 3].map(() => client.stream(method.modelStreamInfer));
    const request = fromBinary(ModelInferRequestSchema, inferRequest(4));
    for (const stream of streams) {
      stream.send(request);
      await stream.next();
    }
    const refusal = await refusalOf(client.call(method.modelMetadata, { name: 'plain' }));
    expect(refusal.code).toBe(status.RESOURCE_EXHAUSTED);
    streams[0]?.end();
    expect((await streams[0]?.status)?.code).toBe(status.OK);
    expect(await client.call(method.modelMetadata, { name: 'plain' })).toMatchObject({ name: 'plain' });
  });

  test('that were refused do not stay, even when their clients never end their side', async () => {
    const server = await start({ settings: { maxOpenCalls: 0, receiveTimeoutMs: 400 } });
    const refused = (await rawClient(server)).open(METADATA);
    refused.stream.resume();
    expect(await refused.ended).toMatchObject({ status: status.RESOURCE_EXHAUSTED });
  });

  test('beyond the bound of connections are closed', async () => {
    const server = await start({ settings: { maxConnections: 2 } });
    await rawClient(server);
    await rawClient(server);
    const socket = net.connect(server.port, '127.0.0.1');
    await new Promise<void>((resolve) =>
      socket
        .once('close', () => resolve())
        .on('error', () => undefined)
        .resume(),
    );
  });

  test('a client that does not read its answer loses its call', async () => {
    const server = await start({ settings: { sendTimeoutMs: 300 } });
    const client = await rawClient(server);
    const { stream, ended } = client.open(INFER);
    stream.pause();
    stream.end(frame(inferRequest(4 * MiB)));
    await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBeGreaterThan(4 * MiB - 1), 5000);
    await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBe(0), 5000);
    stream.resume();
    expect((await ended).status).toBeUndefined();
    await expectHealthy(server);
  });

  test('what waits in a stream that is not read counts as bytes in flight', async () => {
    const server = await start();
    const client = await rawClient(server);
    const { stream } = client.open(STREAM);
    stream.pause();
    // The answers are not read, so the server soon stops reading requests.
    for (let i = 0; i < 40; i++) stream.write(frame(inferRequest(4 * MiB)));
    await vi.waitFor(() => expect(server.services.admission.bytesInFlight).toBeGreaterThan(32 * MiB), 10_000);
    client.close();
    await expectHealthy(server);
  });

  test('a timeout that no timer can count is none', async () => {
    const server = await start();
    const { stream, ended } = (await rawClient(server)).open(METADATA, { 'grpc-timeout': '99999999H' });
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.end(frame(ASK));
    expect(await ended).toMatchObject({ status: 0 });
    expect(fromBinary(ModelMetadataResponseSchema, Buffer.concat(chunks).subarray(5)).name).toBe('plain');
  });

  test.each([
    ['a path of odd characters', '/%ff/\u00e9\u0001', {}],
    ['another content type', METADATA, { 'content-type': 'text/html' }],
    ['a timeout that is none', METADATA, { 'grpc-timeout': 'soon' }],
    ['binary metadata that is none', METADATA, { 'x-data-bin': '!!' }],
  ])('%s does not harm the server', async (_what, path, headers) => {
    const server = await start();
    const { stream, ended } = (await rawClient(server)).open(path, headers);
    stream.resume();
    stream.end(frame(ASK));
    await ended;
    await expectHealthy(server);
  });
});
