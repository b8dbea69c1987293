// What a part has found so far, on disk after each finding: a part that is killed loses only what was under way.
import { renameSync, writeFileSync } from 'node:fs';

export class Report {
  #path;
  #values = {};

  /** @param path of the file; undefined keeps it in memory alone */
  constructor(path) {
    this.#path = path;
  }

  get values() {
    return this.#values;
  }

  note(key, value) {
    this.#values[key] = value;
    if (this.#path === undefined) return;
    writeFileSync(`${this.#path}.new`, JSON.stringify(this.#values));
    renameSync(`${this.#path}.new`, this.#path);
  }

  /** Notes what a step returns, or why it failed. Returns it; undefined where it failed. */
  async attempt(key, step) {
    try {
      const value = await step();
      this.note(key, value ?? null);
      return value;
    } catch (error) {
      this.note(key, { error: textOf(error) });
      return undefined;
    }
  }
}

export function textOf(error) {
  return String(error?.message ?? error).slice(0, 1500);
}

export function rounded(value) {
  return Number.isFinite(value) ? Number(value.toPrecision(5)) : null;
}

export function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}
