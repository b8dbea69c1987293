// What a part has found so far, on disk after each finding: a part that is killed loses only what was under way.
import { renameSync, writeFileSync } from 'node:fs';

export class Report {
  #save;
  #values = {};

  /** @param save gets all that was found, after each finding */
  constructor(save = () => undefined) {
    this.#save = save;
  }

  /** @param path undefined keeps it in memory alone */
  static inFile(path) {
    if (path === undefined) return new Report();
    return new Report((values) => {
      writeFileSync(`${path}.new`, JSON.stringify(values));
      renameSync(`${path}.new`, path);
    });
  }

  /** A report under a key of this one. */
  section(key) {
    return new Report((values) => this.note(key, values));
  }

  get values() {
    return this.#values;
  }

  note(key, value) {
    this.#values[key] = value;
    this.#save(this.#values);
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
