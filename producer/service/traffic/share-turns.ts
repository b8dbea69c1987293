import { toSteps } from '../../../shared/traffic/traffic-rule.ts';

interface Share {
  readonly version: string;
  readonly steps: number;
  /** What the version is owed; all of them together 0. */
  owed: number;
}

/** Whether requests can be sent to a version now. */
export type Usable = (version: string) => boolean;

/**
 * Spreads requests over versions by their shares: each turn every version earns its share, and the one that is owed most
 * gets the request and pays for it. So after as many requests as the shares have steps, each has exactly its own, and
 * before that nearly.
 */
export class ShareTurns {
  readonly #shares: readonly Share[];

  constructor(shares: ReadonlyMap<string, number>) {
    this.#shares = [...shares]
      .map(([version, percent]) => ({ version, steps: toSteps(percent), owed: 0 }))
      .filter(({ steps }) => steps > 0);
  }

  /** The version for the next request; undefined when none with a share is usable. Those that are not earn nothing. */
  next(usable: Usable): string | undefined {
    let total = 0;
    let chosen: Share | undefined;
    for (const share of this.#shares) {
      if (!usable(share.version)) {
        share.owed = 0;
        continue;
      }
      total += share.steps;
      share.owed += share.steps;
      if (!chosen || share.owed > chosen.owed) chosen = share;
    }
    if (!chosen) return undefined;
    chosen.owed -= total;
    return chosen.version;
  }

  /** The version for a key, the same for the same key as long as the shares stand and the version is usable. */
  ofKey(key: string, usable: Usable): string | undefined {
    let left = this.#shares;
    for (let attempt = 0; left.length > 0; attempt += 1) {
      const chosen = pick(left, spread(`${attempt} ${key}`));
      if (!chosen || usable(chosen.version)) return chosen?.version;
      // Only its keys move, by a hash of their own over the others.
      left = left.filter((share) => share !== chosen);
    }
    return undefined;
  }
}

/** @param at from 0 to 1, without 1 */
function pick(shares: readonly Share[], at: number): Share | undefined {
  const total = shares.reduce((sum, { steps }) => sum + steps, 0);
  let below = at * total;
  for (const share of shares) {
    below -= share.steps;
    if (below < 0) return share;
  }
  return shares.at(-1);
}

/** A number from 0 to 1, without 1, that looks random and is always the same for a text: FNV-1a with murmur's ending. */
function spread(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    hash = Math.imul(hash ^ (code & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (code >>> 8), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
