import { InferError } from '../errors.ts';
import type { ModelVersionPolicy } from '../proto/generated/model_config_pb.ts';

const MAX_VERSION = 2n ** 63n - 1n;

/** Folders of a model that are no versions and are expected to be there. */
const OTHER_FOLDERS: readonly string[] = ['warmup', 'initial_state', 'configs'];

export interface VersionDirectories {
  /** Ascending by number. */
  readonly versions: readonly string[];
  /** Names that are no version numbers, each worth a warning. */
  readonly ignored: readonly string[];
}

/** Tells version folders from others by their name: a decimal number from 1 to 2^63-1 without a sign or leading zeros. */
export function sortVersionDirectories(names: readonly string[]): VersionDirectories {
  const versions = names.filter(isVersion).sort(compareVersions);
  const ignored = names.filter((name) => !isVersion(name) && !OTHER_FOLDERS.includes(name));
  return { versions, ignored };
}

export function isVersion(name: string): boolean {
  return /^[1-9][0-9]{0,18}$/.test(name) && BigInt(name) <= MAX_VERSION;
}

/** By number, not by text: 9 comes before 10. Both are versions. */
export function compareVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * The versions that a policy loads, ascending; no policy means the latest one.
 * @throws InferError NOT_FOUND when it leaves none.
 */
export function chooseVersions(
  policy: ModelVersionPolicy | undefined,
  versions: readonly string[],
  modelName: string,
): readonly string[] {
  if (versions.length === 0) {
    const expected = 'a folder named with a number from 1 up holds each version';
    throw new InferError('NOT_FOUND', `model "${modelName}" has no version folder; ${expected}`);
  }
  const choice = policy?.policyChoice;
  if (choice?.case === 'all') return versions;
  if (choice?.case === 'specific') {
    const wanted = choice.value.versions.map(String);
    const chosen = versions.filter((version) => wanted.includes(version));
    if (chosen.length > 0) return chosen;
    const text = `version_policy asks for ${wanted.join(', ') || 'no version'}, there is ${versions.join(', ')}`;
    throw new InferError('NOT_FOUND', `model "${modelName}": ${text}`);
  }
  const count = choice?.case === 'latest' ? choice.value.numVersions : 1;
  return versions.slice(-Math.max(1, count));
}
