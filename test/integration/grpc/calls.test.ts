import { create, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseRestrictions } from '../../../producer/service/restricted-access.ts';
import { ModelStats } from '../../../shared/infer/model-stats.ts';
import { GRPCInferenceService } from '../../../shared/proto/generated/grpc_service_pb.ts';
import { Health } from '../../../shared/proto/generated/health_pb.ts';
import { ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import { ServerReflection } from '../../../shared/proto/generated/reflection_pb.ts';
import { FakeDispatcher, fakeIdentity, fakeModel } from '../../support/fake-dispatcher.ts';
import { type GrpcTestClient, refusalOf, TestGrpcServer } from '../../support/grpc-server.ts';

const { method } = GRPCInferenceService;
const CONFIG = create(ModelConfigSchema, { name: 'plain', platform: 'onnxruntime_onnx', maxBatchSize: 8 });

let dispatcher: FakeDispatcher;
let server: TestGrpcServer;
let client: GrpcTestClient;

beforeEach(async () => {
  dispatcher = new FakeDispatcher([
    fakeModel('plain', { config: CONFIG }),
    fakeIdentity('twice', 'INT32', { version: '1', versions: ['1', '2'] }),
    fakeIdentity('twice', 'INT32', { version: '2', versions: ['1', '2'] }),
  ]);
  server = await TestGrpcServer.start(dispatcher);
  client = server.client();
});

afterEach(() => server.stop());

describe('health', () => {
  test('the server is live, and ready as long as requests can be carried', async () => {
    expect(await client.call(method.serverLive, {})).toMatchObject({ live: true });
    expect(await client.call(method.serverReady, {})).toMatchObject({ ready: true });
    dispatcher.readiness = { ok: false, reason: 'Redis is away' };
    expect(await client.call(method.serverReady, {})).toMatchObject({ ready: false });
    expect(await client.call(method.serverLive, {})).toMatchObject({ live: true });
  });

  test('the health check of gRPC tells the same, whatever service is named', async () => {
    expect(await client.call(Health.method.check, { service: 'any' })).toMatchObject({ status: 1 });
    dispatcher.readiness = { ok: false, reason: 'Redis is away' };
    expect(await client.call(Health.method.check, {})).toMatchObject({ status: 2 });
  });

  test('a model is ready, not ready, or unknown', async () => {
    expect(await client.call(method.modelReady, { name: 'twice', version: '2' })).toMatchObject({ ready: true });
    dispatcher.catalog.list = () => [{ name: 'plain', version: '1', state: 'UNAVAILABLE', reason: 'no worker' }];
    expect(await client.call(method.modelReady, { name: 'plain' })).toMatchObject({ ready: false });
    expect((await refusalOf(client.call(method.modelReady, { name: 'none' }))).code).toBe(status.NOT_FOUND);
  });
});

describe('metadata', () => {
  test('of the server names its version and the words that clients look for', async () => {
    const metadata = await client.call(method.serverMetadata, {});
    expect(metadata).toMatchObject({ name: 'millrace', version: '0.0.0-test' });
    expect(metadata.extensions).toContain('statistics');
  });

  test('of a model is what HTTP says', async () => {
    const metadata = await client.call(method.modelMetadata, { name: 'twice' });
    expect(metadata).toMatchObject({ name: 'twice', versions: ['1', '2'], platform: 'onnxruntime_onnx' });
    expect(metadata.inputs).toMatchObject([{ name: 'x', datatype: 'INT32', shape: [-1n, -1n] }]);
    expect(await client.call(method.modelMetadata, { name: 'twice', version: '1' })).toMatchObject({ versions: ['1'] });
  });

  test('the configuration is the message itself', async () => {
    expect((await client.call(method.modelConfig, { name: 'plain' })).config).toEqual(CONFIG);
  });

  test.each(['-1', '1.5', 'one'])('a version of %j is refused', async (version) => {
    const refusal = await refusalOf(client.call(method.modelMetadata, { name: 'plain', version }));
    expect(refusal.code).toBe(status.INVALID_ARGUMENT);
  });

  test('a message that cannot be read is the client’s mistake', async () => {
    const refusal = await refusalOf(client.send('/inference.GRPCInferenceService/ModelMetadata', Buffer.from([0xff])));
    expect(refusal.code).toBe(status.INVALID_ARGUMENT);
    expect(refusal.details).toContain('ModelMetadata');
  });

  test('a method that does not exist is unimplemented', async () => {
    const refusal = await refusalOf(client.send('/inference.GRPCInferenceService/ModelPaint', Buffer.alloc(0)));
    expect(refusal.code).toBe(status.UNIMPLEMENTED);
  });
});

describe('statistics', () => {
  test('hold what was counted, of every version that is asked for', async () => {
    const stats = new ModelStats('twice', '2');
    const timings = { queueUs: 2, computeInputUs: 3, computeInferUs: 4, computeOutputUs: 5, batchSize: 3 };
    stats.recordSuccess(3, 20, { ...timings, executions: 1, release: 'full' });
    dispatcher.statistics.push(stats);
    const { modelStats } = await client.call(method.modelStatistics, { name: 'twice' });
    expect(modelStats).toMatchObject([
      { name: 'twice', version: '1', inferenceCount: 0n },
      {
        name: 'twice',
        version: '2',
        inferenceCount: 3n,
        executionCount: 1n,
        inferenceStats: { success: { count: 1n, ns: 20_000n }, queue: { count: 1n, ns: 2000n } },
        batchStats: [{ batchSize: 3n, computeInfer: { count: 1n, ns: 4000n } }],
      },
    ]);
  });

  test('without a name are those of all ready models', async () => {
    dispatcher.states.push({ name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no such file' });
    const { modelStats } = await client.call(method.modelStatistics, {});
    expect(modelStats.map(({ name, version }) => `${name}/${version}`)).toEqual(['plain/1', 'twice/1', 'twice/2']);
  });

  test.each([
    { name: 'none', version: '', code: status.NOT_FOUND },
    { name: 'twice', version: '9', code: status.NOT_FOUND },
    { name: '', version: '1', code: status.INVALID_ARGUMENT },
  ])('of $name version $version are refused', async ({ name, version, code }) => {
    expect((await refusalOf(client.call(method.modelStatistics, { name, version }))).code).toBe(code);
  });
});

describe('repository', () => {
  test('the index lists all states, or the ready ones', async () => {
    dispatcher.states.push({ name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no such file' });
    const { models } = await client.call(method.repositoryIndex, {});
    expect(models).toMatchObject([
      { name: 'plain', version: '1', state: 'READY', reason: '' },
      { name: 'twice', version: '1', state: 'READY' },
      { name: 'twice', version: '2', state: 'READY' },
      { name: 'broken', version: '1', state: 'UNAVAILABLE', reason: 'no such file' },
    ]);
    expect((await client.call(method.repositoryIndex, { ready: true })).models).toHaveLength(3);
  });

  test('models are loaded at start only', async () => {
    for (const one of [method.repositoryModelLoad, method.repositoryModelUnload]) {
      const refusal = await refusalOf(client.call(one, { modelName: 'plain' }));
      expect(refusal.code).toBe(status.UNAVAILABLE);
      expect(refusal.details).toContain('explicit model load / unload is not allowed');
    }
  });

  test('a repository that is named is unimplemented everywhere', async () => {
    for (const one of [method.repositoryIndex, method.repositoryModelLoad, method.repositoryModelUnload]) {
      const refusal = await refusalOf(client.call(one, { repositoryName: 'main', modelName: 'plain' }));
      expect(refusal.code).toBe(status.UNIMPLEMENTED);
    }
  });

  test.each([
    ['a name that is a path', { modelName: '../plain' }],
    ['no name', { modelName: '' }],
    ['an unknown parameter', { modelName: 'plain', parameters: { speed: stringParam('fast') } }],
    ['a config that is no text', { modelName: 'plain', parameters: { config: boolParam(true) } }],
    [
      'a file that is no bytes',
      { modelName: 'plain', parameters: { config: stringParam('{}'), 'file:1/a': stringParam('') } },
    ],
    ['a file without a config', { modelName: 'plain', parameters: { 'file:1/a': bytesParam() } }],
  ])('load refuses %s', async (_what, request) => {
    const refusal = await refusalOf(client.call(method.repositoryModelLoad, request));
    expect(refusal.code).toBe(status.INVALID_ARGUMENT);
  });
});

describe('trace settings', () => {
  test('of a model override those of the server until they are cleared', async () => {
    await client.call(method.traceSetting, { settings: { trace_rate: { value: ['500'] } } });
    await client.call(method.traceSetting, { modelName: 'plain', settings: { trace_rate: { value: ['7'] } } });
    expect(await traceRate('plain')).toEqual(['7']);
    expect(await traceRate('')).toEqual(['500']);
    await client.call(method.traceSetting, { modelName: 'plain', settings: { trace_rate: { value: [] } } });
    expect(await traceRate('plain')).toEqual(['500']);
  });

  test('of an unknown model are not found', async () => {
    expect((await refusalOf(client.call(method.traceSetting, { modelName: 'none' }))).code).toBe(status.NOT_FOUND);
  });

  const traceRate = async (modelName: string) =>
    (await client.call(method.traceSetting, { modelName })).settings.trace_rate?.value;
});

describe('log settings', () => {
  test('are answered with their types, and tell the logger', async () => {
    const { settings } = await client.call(method.logSettings, {
      settings: {
        log_info: boolParam(false),
        log_verbose_level: { parameterChoice: { case: 'uint32Param', value: 2 } },
      },
    });
    expect(settings.log_info?.parameterChoice).toEqual({ case: 'boolParam', value: false });
    expect(settings.log_verbose_level?.parameterChoice).toEqual({ case: 'uint32Param', value: 2 });
    expect(settings.log_format?.parameterChoice).toEqual({ case: 'stringParam', value: 'default' });
    expect(server.logKinds.at(-1)).toEqual({ debug: true, info: false, warn: true, error: true });
  });

  test('of a wrong type change nothing', async () => {
    const change = { log_error: boolParam(false), log_info: stringParam('no') };
    expect((await refusalOf(client.call(method.logSettings, { settings: change }))).code).toBe(status.INVALID_ARGUMENT);
    const { settings } = await client.call(method.logSettings, {});
    expect(settings.log_error?.parameterChoice.value).toBe(true);
  });
});

describe('reflection', () => {
  test.each(['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'])(
    'as %s lists the services and hands out all that is needed to call them',
    async (service) => {
      const stream = client.stream(
        ServerReflection.method.serverReflectionInfo,
        {},
        `/${service}/ServerReflectionInfo`,
      );
      stream.send({ messageRequest: { case: 'listServices', value: '' } });
      const { messageResponse: list } = await stream.next();
      expect(list.case === 'listServicesResponse' && list.value.service.map(({ name }) => name)).toContain(
        'inference.GRPCInferenceService',
      );
      stream.send({ messageRequest: { case: 'fileContainingSymbol', value: 'inference.GRPCInferenceService' } });
      const { messageResponse: files } = await stream.next();
      const names =
        files.case === 'fileDescriptorResponse' &&
        files.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name);
      expect(names).toEqual(['grpc_service.proto', 'model_config.proto']);
      stream.end();
      expect((await stream.status).code).toBe(status.OK);
    },
  );

  test('finds methods, messages and nested ones, and says what it does not find', async () => {
    const stream = client.stream(ServerReflection.method.serverReflectionInfo);
    for (const symbol of [
      'inference.GRPCInferenceService.ModelInfer',
      'inference.ModelInferRequest.InferInputTensor',
      'inference.ModelConfig.name',
      'grpc.health.v1.HealthCheckResponse.ServingStatus',
    ]) {
      stream.send({ messageRequest: { case: 'fileContainingSymbol', value: symbol } });
      expect((await stream.next()).messageResponse.case).toBe('fileDescriptorResponse');
    }
    stream.send({ messageRequest: { case: 'fileContainingSymbol', value: 'inference.Nothing' } });
    expect((await stream.next()).messageResponse).toMatchObject({ case: 'errorResponse', value: { errorCode: 5 } });
    stream.end();
  });
});

describe('restricted calls', () => {
  test('need their metadata; the others do not', async () => {
    const restrictions = parseRestrictions('--grpc-restricted-protocol', ['model-config,inference:key=secret']);
    const restricted = await TestGrpcServer.start(dispatcher, { restrictions });
    try {
      const caller = restricted.client();
      const refusal = await refusalOf(caller.call(method.modelConfig, { name: 'plain' }));
      expect(refusal.code).toBe(status.UNAVAILABLE);
      expect(refusal.details).toContain('triton-grpc-protocol-key');
      expect(refusal.details).not.toContain('secret');
      const headers = { 'triton-grpc-protocol-key': 'secret' };
      expect((await caller.call(method.modelConfig, { name: 'plain' }, { headers })).config).toEqual(CONFIG);
      expect(await caller.call(method.serverLive, {})).toMatchObject({ live: true });
      const stream = caller.stream(method.modelStreamInfer);
      expect((await stream.status).code).toBe(status.UNAVAILABLE);
    } finally {
      await restricted.stop();
    }
  });
});

function stringParam(value: string) {
  return { parameterChoice: { case: 'stringParam' as const, value } };
}

function boolParam(value: boolean) {
  return { parameterChoice: { case: 'boolParam' as const, value } };
}

function bytesParam() {
  return { parameterChoice: { case: 'bytesParam' as const, value: new Uint8Array(1) } };
}
