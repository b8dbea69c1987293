import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';

export interface FileIdentity {
  readonly size: number;
  readonly sha256: string;
}

export async function identify(path: string): Promise<FileIdentity> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(piece as Buffer); // no encoding is set
  return { size: (await stat(path)).size, sha256: hash.digest('hex') };
}

const MARK = 'git-commit-id=';
const MAX_COMMIT = 40;

/** The commit that a core of ONNX Runtime says it was built from; undefined when it says none. */
export async function buildCommit(path: string): Promise<string | undefined> {
  let tail = '';
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 })) {
    const text = tail + (piece as Buffer).toString('latin1'); // no encoding is set
    const found = /git-commit-id=([0-9a-f]+)/.exec(text);
    // One that ends with the piece may go on in the next.
    if (found && found.index + found[0].length < text.length) return found[1];
    tail = text.slice(-(MARK.length + MAX_COMMIT));
  }
  return /git-commit-id=([0-9a-f]+)/.exec(tail)?.[1];
}
