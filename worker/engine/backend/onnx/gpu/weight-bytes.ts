import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** A file that keeps its weights in others is the graph alone, which is smaller. */
const MAX_GRAPH_BYTES = 64 * 1024 * 1024;

/**
 * About as many bytes as a model's weights take: the size of its file, and of the files beside it that it names as the
 * places of its weights.
 */
export async function weightBytes(path: string): Promise<number> {
  const own = (await stat(path)).size;
  const folder = dirname(path);
  const others = (await readdir(folder, { withFileTypes: true })).filter(
    (entry) => entry.isFile() && entry.name !== basename(path),
  );
  if (others.length === 0 || own > MAX_GRAPH_BYTES) return own;
  const graph = await readFile(path);
  let bytes = own;
  for (const { name } of others) if (graph.includes(name)) bytes += (await stat(join(folder, name))).size;
  return bytes;
}
