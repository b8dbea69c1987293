import type { TrafficRule } from '../../../shared/traffic/traffic-rule.ts';
import { trafficRuleToJson } from '../../../shared/traffic/traffic-json.ts';
import type { FallenVersion, TrafficEntry } from '../../../shared/traffic/traffic-store.ts';
import { failsMore } from './fails-more.ts';
import { FailureWindow, type Outcomes } from './failure-window.ts';
import { ShareTurns, type Usable } from './share-turns.ts';

/** How far back failures count, in ms. */
const WINDOW_MS = 60_000;
const ALL_STEPS = 100;

/** The rule of a model in force, with what it has to remember from request to request. Replaced when the rule changes. */
export class TrafficPlan {
  readonly rule: TrafficRule;
  /** What was stored for the model when the plan was made. */
  readonly entry: TrafficEntry | undefined;
  readonly fallen: readonly FallenVersion[];
  /** The shares without those that have fallen, together 100. */
  readonly shares: ReadonlyMap<string, number>;
  readonly #turns: ShareTurns;
  /** By version, for those with a share. */
  readonly #windows: ReadonlyMap<string, FailureWindow>;
  #shadowOwed = 0;

  constructor(rule: TrafficRule, entry: TrafficEntry | undefined) {
    this.rule = rule;
    this.entry = entry;
    this.fallen = entry && isAbout(entry, rule) ? entry.fallen : [];
    this.shares = sharesLeft(rule, this.fallen);
    this.#turns = new ShareTurns(this.shares);
    this.#windows = new Map(
      [...this.shares].flatMap(([version, percent]) => (percent > 0 ? [[version, new FailureWindow(WINDOW_MS)]] : [])),
    );
  }

  /** The version for a request; '' leaves it to the version policy. @param key of a sticky request, '' for none */
  choose(key: string, usable: Usable): string {
    const version = key === '' ? this.#turns.next(usable) : this.#turns.ofKey(key, usable);
    return version ?? '';
  }

  /** Whether the next request is copied. */
  takesShadow(): boolean {
    const { shadow } = this.rule;
    if (!shadow) return false;
    this.#shadowOwed += shadow.percent;
    if (this.#shadowOwed < ALL_STEPS) return false;
    this.#shadowOwed -= ALL_STEPS;
    return true;
  }

  /** Notes what became of a request; returns why its version is to fall, undefined when it is not. */
  note(version: string, failed: boolean, nowMs: number): string | undefined {
    if (!this.rule.fallback) return undefined;
    this.#windows.get(version)?.note(failed, nowMs);
    return failed ? this.#whyFalls(version, nowMs) : undefined;
  }

  /** The newest version falls, never the last one. */
  #whyFalls(version: string, nowMs: number): string | undefined {
    const versions = [...this.#windows.keys()]; // ascending, as shares are
    if (versions.length < 2 || versions.at(-1) !== version) return undefined;
    const own = this.#windows.get(version)?.outcomes(nowMs) ?? { total: 0, failed: 0 };
    const others: Outcomes = { total: 0, failed: 0 };
    for (const other of versions.slice(0, -1)) {
      const { total = 0, failed = 0 } = this.#windows.get(other)?.outcomes(nowMs) ?? {};
      others.total += total;
      others.failed += failed;
    }
    if (!failsMore(own, others)) return undefined;
    const lately = `of its last ${own.total} requests ${own.failed} failed`;
    return `${lately}, of the other versions' ${others.total} ${others.failed}, within ${WINDOW_MS / 1000} s`;
  }
}

/** What has fallen from a config's rule says nothing of the rule of another config. */
function isAbout({ source, rule }: TrafficEntry, now: TrafficRule): boolean {
  if (source === 'command') return true;
  return JSON.stringify(trafficRuleToJson(rule)) === JSON.stringify(trafficRuleToJson(now));
}

function sharesLeft({ shares }: TrafficRule, versions: readonly FallenVersion[]): ReadonlyMap<string, number> {
  if (versions.length === 0) return shares;
  const fallen = new Set(versions.map(({ version }) => version));
  let left = 0;
  for (const [version, percent] of shares) if (!fallen.has(version)) left += percent;
  const scale = left === 0 ? 0 : ALL_STEPS / left;
  return new Map([...shares].map(([version, percent]) => [version, fallen.has(version) ? 0 : percent * scale]));
}
