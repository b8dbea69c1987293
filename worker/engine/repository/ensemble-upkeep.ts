import type { Logger } from '../../../shared/runtime/logger.ts';

import { checkMembers, identityOver } from '../ensemble/load-ensemble.ts';
import type { MemberSource } from '../served-model.ts';
import { type Entry, membersOf } from './entry.ts';

export interface EnsembleUpkeepOptions {
  readonly entries: () => Iterable<Entry>;
  readonly members: MemberSource;
  /** Loads a model again. Never rejects. */
  readonly reload: (name: string) => Promise<void>;
  readonly logger: Logger;
}

/** Keeps ensembles in step with their members. Nobody may hold the line of a model while he calls it. */
export class EnsembleUpkeep {
  readonly #options: EnsembleUpkeepOptions;

  constructor(options: EnsembleUpkeepOptions) {
    this.#options = options;
  }

  /** A member has changed: ensembles that it fits no more go down, those that waited for it come back. */
  async reconsider(name: string): Promise<void> {
    for (const entry of [...this.#options.entries()]) {
      if (!entry.wanted || !membersOf(entry).includes(name)) continue;
      if (entry.line.busy) continue; // it looks at its members when it is loaded
      if (!entry.lifecycle.serves) await this.#options.reload(entry.name);
      else if (this.#follow(entry)) await this.reconsider(entry.name);
    }
  }

  /** A member does not serve any more. */
  takeDownOf(name: string): void {
    for (const entry of this.#options.entries()) {
      if (entry.lifecycle.serves && entry.members.includes(name)) {
        this.#takeDown(entry, `its step "${name}" was unloaded`);
      }
    }
  }

  /** What does not fit between an ensemble that serves and its members as they are now; then it is taken down. */
  verify(entry: Entry): string | undefined {
    for (const { ready } of entry.lifecycle.served()) {
      const misfit = checkMembers(ready.config, this.#options.members)[0];
      if (misfit === undefined) continue;
      this.#takeDown(entry, misfit);
      return misfit;
    }
    return undefined;
  }

  /** Whether the answers of the ensemble have become other ones. */
  #follow(entry: Entry): boolean {
    if (this.verify(entry) !== undefined) return false;
    let changed = false;
    for (const served of entry.lifecycle.served()) {
      const identity = identityOver(served.ready, this.#options.members);
      if (identity === served.ready.identity) continue;
      served.reidentify(identity);
      changed = true;
    }
    return changed;
  }

  #takeDown({ name, lifecycle }: Entry, reason: string): void {
    this.#options.logger.warn({ model: name, reason }, 'ensemble taken down');
    lifecycle.fail(`model "${name}": ${reason}`);
    this.takeDownOf(name);
  }
}
