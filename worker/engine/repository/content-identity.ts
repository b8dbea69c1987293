import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { encodeModelConfig } from '../../../shared/model/config-binary.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import { type Fingerprint, fingerprintModel } from './fingerprint.ts';

const MAX_DEPTH = 8;
const CHUNK_BYTES = 1024 * 1024;

/**
 * A hash of all files of a version and of its config, in hex. Must be asked for before the version is loaded, and answers
 * when it is: files that have changed meanwhile may not be those that were loaded, so the identity is then one that no
 * other load has.
 */
export async function watchIdentity(
  modelPath: string,
  version: string,
): Promise<(config: ModelConfig) => Promise<string>> {
  const before = await fingerprintModel(modelPath);
  return async (config) => {
    const hash = createHash('sha256').update(encodeModelConfig(config)).update('\0');
    const complete = await addFolder(hash, join(modelPath, version), '', 0).then(
      () => true,
      () => false, // a file that is gone already
    );
    const after = await fingerprintModel(modelPath);
    if (!complete || !sameVersion(before, after, version)) hash.update(randomBytes(32));
    return hash.digest('hex');
  };
}

function sameVersion(before: Fingerprint, after: Fingerprint, version: string): boolean {
  return before.versions.get(version) === after.versions.get(version);
}

/** Names, lengths and contents, in the order of the names, so that equal folders give equal hashes. */
async function addFolder(
  hash: ReturnType<typeof createHash>,
  folder: string,
  prefix: string,
  depth: number,
): Promise<void> {
  for (const name of (await readdir(folder)).sort()) {
    const path = join(folder, name);
    const stats = await stat(path);
    if (stats.isDirectory()) {
      if (depth < MAX_DEPTH) await addFolder(hash, path, `${prefix}${name}/`, depth + 1);
    } else {
      hash.update(`${prefix}${name}\0${stats.size}\0`);
      for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) hash.update(chunk as Buffer); // no encoding was asked for
    }
  }
}
