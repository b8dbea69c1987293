import { fileURLToPath } from 'node:url';

/**
 * The compiled file of the thread's entry. It stands beside this file in dist/; a program that runs from the sources
 * (tests do) takes the one that the last build made, as Node 20 cannot load TypeScript in a new thread.
 */
export function threadEntry(): string {
  const fromSources = import.meta.url.endsWith('.ts');
  const relative = fromSources
    ? '../../../dist/producer/preprocess/pool/preprocess-thread.js'
    : './preprocess-thread.js';
  return fileURLToPath(new URL(relative, import.meta.url));
}
