import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';

/** A folder of a repository that stands for a model. */
export interface ModelFolder {
  readonly name: string;
  readonly path: string;
  /** Why it is not to be loaded; '' when it may be. */
  readonly conflict: string;
}

/**
 * The models of all repositories, by name. Files and hidden folders beside them are passed over.
 * @throws InferError NOT_FOUND for a repository that cannot be read; its text names the path as it was given.
 */
export async function scanRepositories(repositories: readonly string[], logger: Logger): Promise<ModelFolder[]> {
  const pathsByName = new Map<string, string[]>();
  for (const repository of new Set(repositories)) {
    for (const name of await modelNames(repository, logger)) {
      const paths = pathsByName.get(name) ?? [];
      paths.push(join(repository, name));
      pathsByName.set(name, paths);
    }
  }
  const names = [...pathsByName.keys()].sort();
  return names.map((name) => {
    const paths = pathsByName.get(name) ?? [];
    const conflict = `model "${name}" appears in two or more repositories; each name may be there once`;
    return { name, path: paths[0] ?? '', conflict: paths.length > 1 ? conflict : '' };
  });
}

async function modelNames(repository: string, logger: Logger): Promise<string[]> {
  const entries = await readRepository(repository);
  if (entries.includes('config.pbtxt')) {
    logger.warn({ repository }, 'repository looks like a model folder, its parent may be meant');
  }
  const names: string[] = [];
  for (const name of entries) {
    if (!name.startsWith('.') && (await isFolder(join(repository, name)))) names.push(name);
  }
  return names;
}

async function readRepository(repository: string): Promise<string[]> {
  try {
    return await readdir(repository);
  } catch (error) {
    const text = `model repository '${repository}' cannot be read: ${reasonOf(error)}`;
    throw new InferError('NOT_FOUND', text, { cause: error });
  }
}

/** Symbolic links to folders count; the repository belongs to whoever runs the server. */
export async function isFolder(path: string): Promise<boolean> {
  const stats = await stat(path).catch(() => undefined); // a dangling link or a vanished entry is no folder
  return stats?.isDirectory() ?? false;
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  if (code === 'ENOENT') return 'there is no such folder';
  if (code === 'ENOTDIR') return 'it is not a folder';
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied';
  return `the system says ${String(code)}`;
}
