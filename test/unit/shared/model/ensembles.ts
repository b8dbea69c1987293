import { createReadyModel } from '../../../../shared/model/create-ready-model.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import type { ReadyModel } from '../../../../shared/model/ready-model.ts';
import { resolveBackend } from '../../../../shared/model/resolve-backend.ts';
import type { ModelConfig } from '../../../../shared/proto/generated/model_config_pb.ts';

/** A step of model_version -1 as config text; maps as `model's name: tensor`. */
export function step(
  model: string,
  inputs: Readonly<Record<string, string>>,
  outputs: Readonly<Record<string, string>>,
): string {
  const map = (name: string, entries: Readonly<Record<string, string>>) =>
    Object.entries(entries)
      .map(([key, value]) => `${name} { key: "${key}" value: "${value}" }`)
      .join(' ');
  return `step { model_name: "${model}" model_version: -1 ${map('input_map', inputs)} ${map('output_map', outputs)} }`;
}

/** The config of an ensemble by the name `ens`, its backend resolved. */
export function ensembleConfig(head: string, ...steps: readonly string[]): ModelConfig {
  const text = `platform: "ensemble" ${head} ensemble_scheduling { ${steps.join(' ')} }`;
  return resolveBackend(parseModelConfig(text, 'config.pbtxt'), 'ens', []);
}

/** A tensor of a config: FP32 unless said otherwise. */
export function io(kind: 'input' | 'output', name: string, dims: readonly number[], rest = 'data_type: TYPE_FP32') {
  return `${kind} { name: "${name}" dims: [ ${dims.join(', ')} ] ${rest} }`;
}

/** A model that serves, from the text of its config. */
export function readyModel(name: string, text: string, labels: readonly string[] = []): ReadyModel {
  return createReadyModel({
    config: { ...parseModelConfig(text, 'config.pbtxt'), name },
    version: '1',
    versions: ['1'],
    labels: new Map(labels.length > 0 ? [['labels.txt', labels]] : []),
    files: { names: [], read: () => Promise.reject(new Error('there is none')) },
  });
}
