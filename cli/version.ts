import { readFileSync } from 'node:fs';

/** The version in package.json, which lies two folders above the built file and one above the source. */
export const VERSION = readVersion(['../../package.json', '../package.json']);

function readVersion(candidates: readonly string[]): string {
  for (const candidate of candidates) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(candidate, import.meta.url), 'utf8')) as {
        name?: string;
        version?: string;
      }; // package.json of this very package
      if (name === 'millrace' && version !== undefined) return version;
    } catch {
      // Not there: the next candidate is.
    }
  }
  return '0.0.0';
}
