import { paddingSettingsOf } from '../../../shared/model/padding-settings.ts';
import type { ModelConfig, ModelInput } from '../../../shared/proto/generated/model_config_pb.ts';

/** Which requests share a run although their lengths differ; nothing for a model that is not padded. */
export function paddingWords(config: ModelConfig): string[] {
  const settings = paddingSettingsOf(config);
  if (!settings) return [];
  const names = settings.inputs.map(({ name }) => name).join(', ');
  const { buckets, roundUp } = settings;
  const last = buckets?.at(-1);
  const groups =
    buckets === undefined
      ? 'Only lengths between the same powers of two do (up to 8, 16, 32 and so on).'
      : `Only lengths of one bucket do (up to ${buckets.join(', ')}); beyond ${last ?? 0} only equal ones.`;
  return [
    `By the config, requests of different lengths share a run: the shorter ones are padded, in ${names}.`,
    groups,
    ...(roundUp ? ['Every run has the length of its bucket, that of a lone request too.'] : []),
  ];
}

/** Whether a variable dimension is left whose lengths have to be equal in a run. */
export function hasUnpaddedLength(config: ModelConfig, { name, dims }: ModelInput): boolean {
  const padded = paddingSettingsOf(config)?.inputs.find((each) => each.name === name)?.axes ?? [];
  return dims.some((dim, axis) => dim === -1n && !padded.includes(axis));
}
