import type {
  GRPCInferenceService,
  ModelRepositoryParameter,
} from '../../../shared/proto/generated/grpc_service_pb.ts';
import type { Services } from '../../service/services.ts';
import { repositoryIndex } from '../triton/metadata.ts';
import {
  assertNoRepositoryName,
  controlModel,
  type RepositoryParameter,
  type RepositoryParameters,
} from '../triton/repository-parameters.ts';
import type { UnaryCalls } from './calls.ts';

type RepositoryCalls = Pick<
  UnaryCalls<typeof GRPCInferenceService>,
  'repositoryIndex' | 'repositoryModelLoad' | 'repositoryModelUnload'
>;

/** The model repository: what is in it, and its control. */
export function createRepositoryCalls({ catalog, control }: Pick<Services, 'catalog' | 'control'>): RepositoryCalls {
  return {
    repositoryIndex: ({ repositoryName, ready }) => {
      assertNoRepositoryName(repositoryName);
      return { models: repositoryIndex(catalog.list(), ready) };
    },
    repositoryModelLoad: ({ repositoryName, modelName, parameters }) =>
      change('load', repositoryName, modelName, parameters),
    repositoryModelUnload: ({ repositoryName, modelName, parameters }) =>
      change('unload', repositoryName, modelName, parameters),
  };

  async function change(
    action: 'load' | 'unload',
    repository: string,
    model: string,
    parameters: Readonly<Record<string, ModelRepositoryParameter>>,
  ): Promise<Record<string, never>> {
    await controlModel(control, action, { repository, model }, readParameters(parameters));
    return {};
  }
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
