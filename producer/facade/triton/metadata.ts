import type { ModelState } from '../../../shared/infer/ports.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import { ModelInstanceGroup_Kind } from '../../../shared/proto/generated/model_config_pb.ts';
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

/**
 * The same, and for a model on GPUs which ones, under a key that the gRPC message has not: what KIND_AUTO has become shows.
 * @param version as there
 */
export function modelMetadataWithDevices(model: ReadyModel, version: string | undefined) {
  const devices = new Set<string>();
  for (const { kind, gpus } of model.config.instanceGroup) {
    if (kind === ModelInstanceGroup_Kind.GPU) for (const gpu of gpus) devices.add(`gpu:${gpu}`);
    else devices.add('cpu');
  }
  const onGpu = [...devices].some((device) => device !== 'cpu');
  return { ...modelMetadata(model, version), ...(onGpu && { parameters: { devices: [...devices].join(',') } }) };
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
