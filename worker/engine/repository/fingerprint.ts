import type { Stats } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isVersion } from '../../../shared/model/version-directories.ts';

/** Tells whether files of a model have changed, from their sizes and times; nothing is read. */
export interface Fingerprint {
  /** Everything but the versions: config, labels, what describes preprocessing. */
  readonly common: string;
  readonly versions: ReadonlyMap<string, string>;
  /** Of the files of each version. */
  readonly bytes: ReadonlyMap<string, number>;
}

/** Folders of a model, other than versions, whose files matter. */
const OTHER_FOLDERS: readonly string[] = ['configs', 'warmup', 'initial_state'];
const MAX_DEPTH = 8;

/** Folders that are neither versions nor known leave no trace, so that creating one changes nothing. */
export async function fingerprintModel(path: string): Promise<Fingerprint> {
  const common: string[] = [];
  const versions = new Map<string, string>();
  const bytes = new Map<string, number>();
  for (const { name, stats } of await entriesOf(path)) {
    if (stats.isFile()) common.push(mark(name, stats));
    else if (isVersion(name)) {
      const below = await look(join(path, name), 1);
      versions.set(name, below.marks.join('\n'));
      bytes.set(name, below.bytes);
    } else if (OTHER_FOLDERS.includes(name)) common.push(name, ...(await look(join(path, name), 1)).marks);
    else {
      const config = await statOf(join(path, name, 'config.json'));
      if (config?.isFile()) common.push(mark(`${name}/config.json`, config));
    }
  }
  return { common: common.join('\n'), versions, bytes };
}

export function sameFingerprint(a: Fingerprint | undefined, b: Fingerprint | undefined): boolean {
  if (!a || !b) return a === b;
  if (a.common !== b.common || a.versions.size !== b.versions.size) return false;
  for (const [version, marks] of a.versions) if (b.versions.get(version) !== marks) return false;
  return true;
}

async function look(folder: string, depth: number): Promise<{ marks: string[]; bytes: number }> {
  const marks: string[] = [];
  let bytes = 0;
  for (const { name, stats } of depth > MAX_DEPTH ? [] : await entriesOf(folder)) {
    if (stats.isDirectory()) {
      const below = await look(join(folder, name), depth + 1);
      marks.push(`${name}/`, ...below.marks);
      bytes += below.bytes;
    } else {
      marks.push(mark(name, stats));
      bytes += stats.size;
    }
  }
  return { marks, bytes };
}

/** Sorted by name; what vanishes while it is looked at is left out. */
async function entriesOf(folder: string): Promise<{ name: string; stats: Stats }[]> {
  const entries: { name: string; stats: Stats }[] = [];
  const names = await readdir(folder).catch(() => []);
  for (const name of names.sort()) {
    const stats = await statOf(join(folder, name));
    if (stats) entries.push({ name, stats });
  }
  return entries;
}

function statOf(path: string): Promise<Stats | undefined> {
  return stat(path).catch(() => undefined); // gone, or a dangling link
}

function mark(name: string, { size, mtimeMs, ino }: Stats): string {
  return `${name} ${size} ${mtimeMs} ${ino}`;
}
