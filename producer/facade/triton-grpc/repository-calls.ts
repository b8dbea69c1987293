import type {
  GRPCInferenceService,
  ModelRepositoryParameter,
} from '../../../shared/proto/generated/grpc_service_pb.ts';
import type { Services } from '../../service/services.ts';
import { repositoryIndex } from '../triton/metadata.ts';
import {
  assertModelControl,
  assertNoRepositoryName,
  explicitControlOff,
  type RepositoryParameter,
  type RepositoryParameters,
} from '../triton/repository-parameters.ts';
import type { UnaryCalls } from './calls.ts';

type RepositoryCalls = Pick<
  UnaryCalls<typeof GRPCInferenceService>,
  'repositoryIndex' | 'repositoryModelLoad' | 'repositoryModelUnload'
>;

/** The model repository: what is in it, and its control, which this mode does not have. */
export function createRepositoryCalls({ catalog }: Pick<Services, 'catalog'>): RepositoryCalls {
  return {
    repositoryIndex: ({ repositoryName, ready }) => {
      assertNoRepositoryName(repositoryName);
      return { models: repositoryIndex(catalog.list(), ready) };
    },
    repositoryModelLoad: ({ repositoryName, modelName, parameters }) => {
      assertModelControl('load', repositoryName, modelName, readParameters(parameters));
      throw explicitControlOff(modelName, 'load');
    },
    repositoryModelUnload: ({ repositoryName, modelName, parameters }) => {
      assertModelControl('unload', repositoryName, modelName, readParameters(parameters));
      throw explicitControlOff(modelName, 'unload');
    },
  };
}

function readParameters(parameters: Readonly<Record<string, ModelRepositoryParameter>>): RepositoryParameters {
  return new Map(Object.entries(parameters).map(([name, parameter]) => [name, readParameter(parameter)]));
}

function readParameter({ parameterChoice: choice }: ModelRepositoryParameter): RepositoryParameter {
  switch (choice.case) {
    case 'stringParam':
      return { kind: 'text', text: choice.value };
    case 'bytesParam':
      return { kind: 'bytes', bytes: choice.value };
    case 'boolParam':
      return { kind: 'boolean', value: choice.value };
    default:
      return { kind: 'other' };
  }
}
