import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import type { ModelFiles } from '../../../shared/model/ready-model.ts';

/** Larger files are no descriptions of a model. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The text files of a model folder that describe preprocessing and labels: `*.json` and `*.txt` beside config.pbtxt, and
 * `config.json` one folder deeper (as exports of sentence-transformers have it). A link that leads out of the folder is
 * not followed.
 */
export async function findModelFiles(modelPath: string): Promise<ModelFiles> {
  const root = await realpath(modelPath);
  const paths = new Map<string, string>();
  for (const name of await candidates(root)) {
    const path = await readablePath(root, name);
    if (path !== undefined) paths.set(name, path);
  }
  return {
    names: [...paths.keys()],
    async read(name) {
      const path = paths.get(name);
      if (path === undefined) throw new InferError('NOT_FOUND', `the model has no file '${name}'`);
      try {
        return await readFile(path);
      } catch (error) {
        throw new InferError('INTERNAL', `the model's file '${name}' cannot be read`, { cause: error });
      }
    },
  };
}

async function candidates(root: string): Promise<string[]> {
  const names: string[] = [];
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) names.push(`${entry.name}/config.json`);
    else if (/\.(json|txt)$/.test(entry.name)) names.push(entry.name);
  }
  return names.sort();
}

/** The real path of a small file inside the folder; undefined for anything else. */
async function readablePath(root: string, name: string): Promise<string | undefined> {
  try {
    const path = await realpath(join(root, name));
    if (!path.startsWith(root + sep)) return undefined;
    const stats = await stat(path);
    return stats.isFile() && stats.size <= MAX_BYTES ? path : undefined;
  } catch {
    return undefined; // not there, or a dangling link
  }
}
