import type { ModelState } from '../../../shared/infer/ports.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import type { Services } from '../../service/services.ts';

/** What this server speaks beyond the core of the protocol; clients switch features on by these words. */
const EXTENSIONS = [
  'classification',
  'sequence',
  'model_repository',
  'schedule_policy',
  'model_configuration',
  'system_shared_memory',
  'cuda_shared_memory',
  'binary_tensor_data',
  'parameters',
  'statistics',
  'trace',
  'logging',
];

export function serverMetadata({ serverId, version }: Pick<Services, 'serverId' | 'version'>) {
  return { name: serverId, version, extensions: EXTENSIONS };
}

/** @param version the one that the client asked for, if it did: then `versions` names just that one */
export function modelMetadata(model: ReadyModel, version: string | undefined) {
  return {
    name: model.name,
    versions: version === undefined ? model.versions : [model.version],
    platform: model.platform,
    inputs: model.inputs.map(tensorMetadata),
    outputs: model.outputs.map(tensorMetadata),
  };
}

function tensorMetadata({ name, datatype, shape }: TensorSpec) {
  return { name, datatype, shape };
}

/** The rows of the repository index, in Triton's words. */
export function repositoryIndex(states: readonly ModelState[], readyOnly: boolean) {
  return states
    .filter(({ state }) => !readyOnly || state === 'READY')
    .map(({ name, version, state, reason }) => ({
      name,
      ...(version === undefined ? {} : { version }),
      ...(state === 'UNKNOWN' ? {} : { state }), // one that was never loaded has a name only
      ...(reason === '' ? {} : { reason }),
    }));
}
