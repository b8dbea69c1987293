import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach } from 'vitest';

/** A shared memory object of a test. */
export interface ShmObject {
  readonly key: string;
  readonly path: string;
  bytes(): Buffer;
}

/** Makes POSIX shared memory objects with names of their own, which are removed after the test. */
export function useShm(): (content: Uint8Array) => ShmObject {
  const paths: string[] = [];
  afterEach(() => {
    for (const path of paths.splice(0)) rmSync(path, { recursive: true, force: true });
  });
  return (content) => {
    const key = `/millrace_test_${randomUUID()}`;
    const path = `/dev/shm${key}`;
    paths.push(path);
    writeFileSync(path, content);
    return { key, path, bytes: () => readFileSync(path) };
  };
}
