import type { TrafficRule } from './traffic-rule.ts';

/** A version that has lost its share because it failed more than the others. */
export interface FallenVersion {
  readonly version: string;
  readonly reason: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
}

/** What is known of a model's traffic beside its config. */
export interface TrafficEntry {
  /** Whether somebody has set the rule; else it is that of the config, written down because a version has fallen. */
  readonly source: 'command' | 'config';
  readonly rule: TrafficRule;
  readonly fallen: readonly FallenVersion[];
}

/** Where the entries are: in this process, or in Redis for all producers. */
export interface TrafficStore {
  /** The same object until something changes. */
  get(model: string): TrafficEntry | undefined;
  /** @throws InferError UNAVAILABLE when it cannot be written. */
  set(model: string, entry: TrafficEntry): Promise<void>;
  /** What was set is as if it had never been. @throws as `set` */
  clear(model: string): Promise<void>;
  /**
   * Replaces an entry unless somebody else has changed it meanwhile; returns whether it did.
   * @param before what `get` gave
   * @throws as `set`
   */
  replace(model: string, before: TrafficEntry | undefined, entry: TrafficEntry): Promise<boolean>;
}
