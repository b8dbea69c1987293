import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { GRPCInferenceService } from '../../../shared/proto/generated/grpc_service_pb.ts';
import { Health } from '../../../shared/proto/generated/health_pb.ts';
import { ServerReflection } from '../../../shared/proto/generated/reflection_pb.ts';
import type { ApiCategory } from '../../service/restricted-access.ts';
import type { Services } from '../../service/services.ts';
import type { UnaryCalls, UnaryHandler } from './calls.ts';
import type { GrpcSettings } from './grpc-settings.ts';
import { createHealthCalls } from './health-calls.ts';
import { createInferCalls } from './infer-calls.ts';
import { createMetadataCalls } from './metadata-calls.ts';
import { createCallOpener } from './open-call.ts';
import { createReflectionCall } from './reflection-calls.ts';
import { createRepositoryCalls } from './repository-calls.ts';
import { type Method, type MethodContext, rawMethod, unaryMethod } from './service.ts';
import { createSettingsCalls } from './settings-calls.ts';
import { createSharedMemoryCalls } from './shared-memory-calls.ts';

/** Reflection under its name of before 2023, which most tools still ask for first. */
const OLD_REFLECTION = 'grpc.reflection.v1alpha.ServerReflection';

/** Every method of the server, in one list. */
export function createMethods(services: Services, settings: GrpcSettings): readonly Method[] {
  const { tenants, logger } = services;
  const context: MethodContext = { openCall: createCallOpener(services), tenants, logger };
  const { modelInfer, modelStreamInfer } = createInferCalls(services, settings);
  const inference: UnaryCallsBesideInfer = {
    ...createMetadataCalls(services),
    ...createRepositoryCalls(services),
    ...createSettingsCalls(services),
    ...createSharedMemoryCalls(services),
  };
  const { method } = GRPCInferenceService;
  const reflection = rawMethod(
    ServerReflection.method.serverReflectionInfo,
    createReflectionCall([GRPCInferenceService, Health, ServerReflection], services.logger),
  );
  return [
    rawMethod(method.modelInfer, modelInfer),
    rawMethod(method.modelStreamInfer, modelStreamInfer),
    ...unaryMethods(GRPCInferenceService, inference, context),
    ...unaryMethods(Health, createHealthCalls(services), context),
    reflection,
    { ...reflection, definition: { ...reflection.definition, path: `/${OLD_REFLECTION}/ServerReflectionInfo` } },
  ];
}

type UnaryCallsBesideInfer = Omit<UnaryCalls<typeof GRPCInferenceService>, 'modelInfer'>;

function unaryMethods(service: DescService, handlers: object, context: MethodContext): Method[] {
  return Object.entries(handlers).map(([name, handler]) => {
    const descriptor = service.method[name];
    if (!descriptor) throw new Error(`${service.typeName} has no method ${name}`);
    // The handlers were typed by this very service's methods, under the same names.
    return unaryMethod(descriptor, handler as UnaryHandler<DescMethod>, context);
  });
}

/** Groups of methods that `--grpc-restricted-protocol` can keep for those who know a header; the rest is metadata. */
const CATEGORIES: readonly (readonly [ApiCategory, RegExp])[] = [
  ['inference', /\/Model(?:Stream)?Infer$/],
  ['health', /\/(?:ServerLive|ServerReady|ModelReady|Check)$/],
  ['model-config', /\/ModelConfig$/],
  ['statistics', /\/ModelStatistics$/],
  ['model-repository', /\/Repository\w+$/],
  ['shared-memory', /\/(?:System|Cuda)SharedMemory\w+$/],
  ['trace', /\/TraceSetting$/],
  ['logging', /\/LogSettings$/],
];

/** The category of each path; looked up for every call. */
export function categoriesOf(methods: readonly Method[]): ReadonlyMap<string, ApiCategory> {
  return new Map(
    methods.map(({ definition: { path } }) => [
      path,
      CATEGORIES.find(([, pattern]) => pattern.test(path))?.[0] ?? 'metadata',
    ]),
  );
}
