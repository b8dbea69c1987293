import { clone } from '@bufbuild/protobuf';
import { InferError } from '../errors.ts';
import { type ModelConfig, ModelConfigSchema } from '../proto/generated/model_config_pb.ts';
import { isEnsemble } from './ensemble-graph.ts';

/** Which platforms belong to which backend, and the file that says so when the config does not. */
const BACKENDS: readonly { backend: string; platform: string; file: string }[] = [
  { backend: 'tensorflow', platform: 'tensorflow_savedmodel', file: 'model.savedmodel' },
  { backend: 'tensorflow', platform: 'tensorflow_graphdef', file: 'model.graphdef' },
  { backend: 'tensorrt', platform: 'tensorrt_plan', file: 'model.plan' },
  { backend: 'onnxruntime', platform: 'onnxruntime_onnx', file: 'model.onnx' },
  { backend: 'openvino', platform: '', file: 'model.xml' },
  { backend: 'pytorch', platform: 'pytorch_libtorch', file: 'model.pt' },
  { backend: 'pytorch', platform: 'torch_aoti', file: 'model.pt2' },
  { backend: 'python', platform: '', file: 'model.py' },
];

const SUPPORTED = 'onnxruntime';

/**
 * Fills name, backend, platform and default_model_filename. `fileNames` are the names in the lexicographically first
 * version folder. Returns a new config.
 * @throws InferError UNIMPLEMENTED for a backend that this server does not run, INVALID_ARGUMENT for a name, a platform or
 * a folder that does not fit.
 */
export function resolveBackend(config: ModelConfig, modelName: string, fileNames: readonly string[]): ModelConfig {
  if (config.name !== '' && config.name !== modelName) {
    const fix = `the name must be that of the model's folder, or be left out`;
    throw new InferError('INVALID_ARGUMENT', `model "${modelName}": the config has name "${config.name}"; ${fix}`);
  }
  if (isEnsemble(config)) return resolveEnsemble(config, modelName);
  const backend = config.backend || backendOf(config, modelName, fileNames);
  if (backend !== SUPPORTED) {
    const supported = `supported is "${SUPPORTED}" (model.onnx)`;
    throw new InferError('UNIMPLEMENTED', `model "${modelName}": backend "${backend}" is not supported; ${supported}`);
  }
  const platform = BACKENDS.find((row) => row.backend === SUPPORTED)?.platform ?? '';
  if (config.platform !== '' && config.platform !== platform) {
    const pair = `backend "${backend}" goes with platform "${platform}"`;
    throw new InferError('INVALID_ARGUMENT', `model "${modelName}": ${pair}, the config has "${config.platform}"`);
  }
  const resolved = clone(ModelConfigSchema, config);
  resolved.name = modelName;
  resolved.backend = backend;
  resolved.platform = platform;
  resolved.defaultModelFilename ||= 'model.onnx';
  return resolved;
}

/** An ensemble has a platform, no backend and no file. */
function resolveEnsemble(config: ModelConfig, modelName: string): ModelConfig {
  const problem = problemOfEnsemble(config);
  if (problem !== undefined) throw new InferError('INVALID_ARGUMENT', `model "${modelName}": ${problem}`);
  const resolved = clone(ModelConfigSchema, config);
  resolved.name = modelName;
  return resolved;
}

function problemOfEnsemble({ platform, backend, schedulingChoice }: ModelConfig): string | undefined {
  if (platform !== 'ensemble') {
    const given = platform === '' ? 'has none' : `has "${platform}"`;
    return `ensemble_scheduling goes with platform "ensemble", the config ${given}`;
  }
  if (backend !== '') return `platform "ensemble" goes without a backend, the config has "${backend}"`;
  if (schedulingChoice.case === 'ensembleScheduling') return undefined;
  return 'platform "ensemble" needs ensemble_scheduling with the steps';
}

function backendOf(config: ModelConfig, modelName: string, fileNames: readonly string[]): string {
  if (config.platform !== '') {
    const known = BACKENDS.find((row) => row.platform === config.platform);
    return known?.backend ?? config.platform;
  }
  const byFile = BACKENDS.find((row) => fileNames.includes(row.file));
  if (byFile) return byFile.backend;
  if (config.defaultModelFilename.endsWith('.onnx')) return SUPPORTED;
  const suffix = modelName.slice(modelName.lastIndexOf('.') + 1);
  if (suffix !== modelName && BACKENDS.some((row) => row.backend === suffix)) return suffix;
  const found = fileNames.length === 0 ? 'is empty' : `holds ${fileNames.slice(0, 5).join(', ')}`;
  const expected = 'the config names no backend and the first version folder has no model.onnx';
  throw new InferError('INVALID_ARGUMENT', `model "${modelName}": ${expected}; it ${found}`);
}
