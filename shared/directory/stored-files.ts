import type { Redis } from 'ioredis';
import { sha256Hex } from '../sha256.ts';
import { InferError } from '../errors.ts';
import type { ModelFiles } from '../model/ready-model.ts';
import { fileKey } from '../wire/names.ts';
import { type DescribedFile } from './model-description.ts';

/**
 * The files of a model that lives on other machines, read from Redis when first asked for and kept as long as the model
 * is known. Content is checked against its hash.
 */
export function createStoredFiles(redis: Redis, files: readonly DescribedFile[]): ModelFiles {
  const byName = new Map(files.map((file) => [file.name, file]));
  const contents = new Map<string, Promise<Buffer>>();
  return {
    names: files.map((file) => file.name),
    read(name) {
      const file = byName.get(name);
      if (!file) return Promise.reject(new InferError('NOT_FOUND', `the model has no file ${JSON.stringify(name)}`));
      const known = contents.get(name);
      if (known) return known;
      const content = readFile(redis, file);
      contents.set(name, content);
      // Only success is kept: the file may be back with the next heartbeat of a worker.
      content.catch(() => contents.delete(name));
      return content;
    },
  };
}

async function readFile(redis: Redis, file: DescribedFile): Promise<Buffer> {
  let content: Buffer | null;
  try {
    content = await redis.getBuffer(fileKey(file.sha256));
  } catch (cause) {
    throw new InferError('UNAVAILABLE', `the model's file ${JSON.stringify(file.name)} could not be read`, { cause });
  }
  if (content?.byteLength !== file.byteLength || sha256Hex(content) !== file.sha256) {
    throw new InferError('UNAVAILABLE', `the model's file ${JSON.stringify(file.name)} is not in the directory now`);
  }
  return content;
}
