import { connect } from 'node:net';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createApp } from '../../../producer/app.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../../producer/http/http-settings.ts';
import { createServices, type Services } from '../../../producer/service/services.ts';
import type { InferFn } from '../../../shared/infer/ports.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { GRPCInferenceService, ModelInferRequestSchema } from '../../../shared/proto/generated/grpc_service_pb.ts';
import { DEFAULT_GRPC_SETTINGS } from '../../../producer/facade/triton-grpc/grpc-settings.ts';
import { createGrpcServer, type GrpcServer } from '../../../producer/facade/triton-grpc/server.ts';
import { makeFixtureModel } from '../../fixtures/make-models.ts';
import { countCopies } from '../../support/count-copies.ts';
import { pathOf } from '../../support/grpc-server.ts';
import { frame, RawGrpcClient } from '../../support/raw-grpc.ts';
import { until } from '../../support/redis.ts';
import { type EngineUnderTest, startEngine, temporaryFolder } from '../engine/kit.ts';

const TENSOR = Buffer.from(Float32Array.from({ length: 150_000 }, (_, i) => i).buffer);

/** Waits for company whatever it costs. */
const TOGETHER = `max_batch_size: 8
platform: "onnxruntime_onnx"
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
dynamic_batching { max_queue_delay_microseconds: 500000 }
parameters { key: "batch_curve" value { string_value: "off" } }
`;

const folder = temporaryFolder();
let engine: EngineUnderTest;
let app: FastifyInstance;
let httpPort = 0;
let grpc: GrpcServer;
let grpcPort = 0;
/** What went through the engine, newest last. */
const seen: { readonly request: InferRequest; readonly response: InferResponse }[] = [];

beforeAll(async () => {
  makeFixtureModel(join(folder.path, 'id_f32'), 'id_f32');
  makeFixtureModel(join(folder.path, 'together'), 'id_f32', TOGETHER);
  engine = await startEngine([folder.path]);
  const services = watchedServices();
  app = createApp({ services, settings: DEFAULT_HTTP_SETTINGS });
  httpPort = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port);
  grpc = createGrpcServer({ services, settings: DEFAULT_GRPC_SETTINGS });
  grpcPort = await grpc.listen('127.0.0.1', 0);
});
afterAll(async () => {
  await app.close();
  await grpc.close(0);
  await engine.close();
  folder.remove();
});

function watchedServices(): Services {
  const services = createServices({
    dispatcher: engine.engine,
    settings: DEFAULT_HTTP_SETTINGS,
    logger: silentLogger,
    version: '0.0.0-test',
  });
  const infer: InferFn = async (request, call) => {
    const response = await services.infer(request, call);
    seen.push({ request, response });
    return response;
  };
  return { ...services, infer };
}

/** The whole answer to a request that was written as it is. */
function httpAnswer(head: string, body: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect(httpPort, '127.0.0.1');
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => void parts.push(part));
    socket.once('error', reject);
    socket.once('close', () => resolve(Buffer.concat(parts)));
    socket.write(head);
    socket.write(body);
  });
}

function httpRequest(id: string, tensor: Uint8Array, model = 'id_f32') {
  const input = { name: 'x', datatype: 'FP32', shape: [1, tensor.length / 4] };
  const json = JSON.stringify({
    id,
    inputs: [{ ...input, parameters: { binary_data_size: tensor.length } }],
    parameters: { binary_data_output: true },
  });
  const body = Buffer.concat([Buffer.from(json), tensor]);
  const head = `POST /v2/models/${model}/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nInference-Header-Content-Length: ${json.length}\r\nContent-Length: ${body.length}\r\n\r\n`;
  return { head, body };
}

async function grpcAnswer(client: RawGrpcClient, message: Buffer): Promise<Buffer> {
  const { stream, ended } = client.open(pathOf(GRPCInferenceService.method.modelInfer));
  const parts: Buffer[] = [];
  stream.on('data', (part: Buffer) => void parts.push(part));
  stream.end(message);
  expect((await ended).status).toBe(0);
  return Buffer.concat(parts);
}

function grpcRequest(id: string, tensor: Uint8Array, model = 'id_f32'): Buffer {
  const message = create(ModelInferRequestSchema, {
    modelName: model,
    id,
    inputs: [{ name: 'x', datatype: 'FP32', shape: [1n, BigInt(tensor.length / 4)] }],
    rawInputContents: [tensor],
  });
  return frame(toBinary(ModelInferRequestSchema, message));
}

/** The copies of one request without those of the client in this process, which joins the answer once. */
async function copiesOf(answer: () => Promise<Buffer>): Promise<number> {
  let answered: Buffer = Buffer.alloc(0);
  const bytes = await countCopies(async () => (answered = await answer()));
  expect(answered.subarray(-TENSOR.length).equals(TENSOR)).toBe(true);
  return (bytes - answered.length) / TENSOR.length;
}

// Ids of growing length move the tensor through all alignments.
const IDS = ['', 'a', 'ab', 'abc', 'abcd', 'abcde', 'abcdef', 'abcdefg'];

describe('a tensor between socket and session', () => {
  test.each(IDS)('is copied once in a request over HTTP, and not at all in the answer (id %j)', async (id) => {
    const { head, body } = httpRequest(id, TENSOR);
    const copies = await copiesOf(() => httpAnswer(head, body));
    // The first piece comes together with the headers, and is kept until there are more.
    expect(copies).toBeGreaterThan(0.9);
    expect(copies).toBeLessThan(1.01);
  });

  test('is copied once in requests over HTTP that share a run', async () => {
    const requests = togetherOf((id, tensor) => httpRequest(id, tensor, 'together'));
    const copies = await copiesOfRun(requests, ({ head, body }) => httpAnswer(head, body));
    expect(copies).toBeLessThan(1.01);
  });

  test.each(IDS)('is copied once in a request over gRPC, and once in the answer (id %j)', async (id) => {
    const client = await RawGrpcClient.connect(grpcPort);
    const message = grpcRequest(id, TENSOR);
    const copies = await copiesOf(() => grpcAnswer(client, message));
    client.close();
    expect(copies).toBeGreaterThan(1.9);
    expect(copies).toBeLessThan(2.01);
  });

  test('is copied once in requests over gRPC that share a run, and once in the answer', async () => {
    const client = await RawGrpcClient.connect(grpcPort);
    const requests = togetherOf((id, tensor) => grpcRequest(id, tensor, 'together'));
    const copies = await copiesOfRun(requests, (message) => grpcAnswer(client, message));
    client.close();
    expect(copies).toBeLessThan(2.01);
  });
});

/** Requests with tensors that tell them apart. */
function togetherOf<T>(request: (id: string, tensor: Buffer) => T): { tensor: Buffer; sent: T }[] {
  return IDS.map((id, row) => {
    const tensor = Buffer.from(Float32Array.from({ length: 150_000 }, (_, i) => i * row).buffer);
    return { tensor, sent: request(id, tensor) };
  });
}

/** The copies of a request that is sent together with others and shares a run with them. */
async function copiesOfRun<T>(
  requests: readonly { tensor: Buffer; sent: T }[],
  answerOf: (sent: T) => Promise<Buffer>,
): Promise<number> {
  let answers: Buffer[] = [];
  const bytes = await countCopies(async () => {
    answers = await Promise.all(requests.map(({ sent }) => answerOf(sent)));
  });
  let clientBytes = 0;
  for (const [at, answer] of answers.entries()) {
    clientBytes += answer.length;
    expect(answer.subarray(-TENSOR.length).equals(requests[at]!.tensor)).toBe(true);
  }
  expect(seen.at(-1)!.response.timings.batchSize).toBe(requests.length);
  return (bytes - clientBytes) / TENSOR.length / requests.length;
}

describe('the memory of a large request', () => {
  test('is freed over HTTP once the answer is sent, and every answer is right', async () => {
    for (let value = 0; value < 20; value++) {
      const tensor = Buffer.from(Float32Array.from({ length: 150_000 }, () => value).buffer);
      const { head, body } = httpRequest(String(value), tensor);
      const answer = await httpAnswer(head, body);
      expect(answer.subarray(-tensor.length).equals(tensor)).toBe(true);
      await expectFreed();
    }
  });

  test('is freed over gRPC once the answer is on its way, and every answer is right', async () => {
    const client = await RawGrpcClient.connect(grpcPort);
    for (let value = 0; value < 20; value++) {
      const tensor = Buffer.from(Float32Array.from({ length: 150_000 }, () => value).buffer);
      const answer = await grpcAnswer(client, grpcRequest(String(value), tensor));
      expect(answer.subarray(-tensor.length).equals(tensor)).toBe(true);
      await expectFreed();
    }
    client.close();
  });

  async function expectFreed(): Promise<void> {
    const { request, response } = seen.at(-1)!;
    const tensors = [...request.inputs, ...response.outputs];
    await until('all of it is freed', () => tensors.every(({ data }) => data.byteLength === 0));
  }
});
