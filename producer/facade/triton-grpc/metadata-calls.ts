import { type DescMessage, fromJson, type JsonValue, type MessageShape } from '@bufbuild/protobuf';
import { InferError } from '../../../shared/errors.ts';
import {
  type GRPCInferenceService,
  ModelMetadataResponseSchema,
  ModelStatisticsResponseSchema,
  ServerMetadataResponseSchema,
} from '../../../shared/proto/generated/grpc_service_pb.ts';
import type { Services } from '../../service/services.ts';
import { stateOf } from '../triton/known-model.ts';
import { modelMetadata, serverMetadata } from '../triton/metadata.ts';
import { modelStatistics } from '../triton/statistics.ts';
import type { UnaryCalls } from './calls.ts';

type MetadataCalls = Pick<
  UnaryCalls<typeof GRPCInferenceService>,
  'serverLive' | 'serverReady' | 'modelReady' | 'serverMetadata' | 'modelMetadata' | 'modelConfig' | 'modelStatistics'
>;

/** What a client asks about the server and its models. The same rows as over HTTP, read into messages. */
export function createMetadataCalls(services: Services): MetadataCalls {
  const { catalog } = services;
  return {
    serverLive: () => ({ live: true }),
    serverReady: () => ({ ready: services.serverReady() }),
    modelReady: ({ name, version }) => ({
      ready: stateOf(catalog, catalog.resolve(name, asVersion(version))).state === 'READY',
    }),
    serverMetadata: () => messageOf(ServerMetadataResponseSchema, serverMetadata(services)),
    modelMetadata: ({ name, version }) => {
      const model = catalog.resolve(name, asVersion(version));
      return messageOf(ModelMetadataResponseSchema, modelMetadata(model, version === '' ? undefined : version));
    },
    modelConfig: ({ name, version }) => ({ config: catalog.resolve(name, asVersion(version)).config }),
    modelStatistics: ({ name, version }) =>
      messageOf(ModelStatisticsResponseSchema, modelStatistics(services, name, asVersion(version))),
  };
}

/** Over HTTP the path says this. */
function asVersion(version: string): string {
  if (/^\d*$/.test(version)) return version;
  throw new InferError('INVALID_ARGUMENT', 'a model version must be a number in decimal');
}

function messageOf<M extends DescMessage>(schema: M, json: object): MessageShape<M> {
  return fromJson(schema, json as JsonValue); // plain rows of our own making
}
