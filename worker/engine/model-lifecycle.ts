import { InferError } from '../../shared/errors.ts';
import { ModelStats } from '../../shared/infer/model-stats.ts';
import { notReady, unknownVersion } from '../../shared/infer/not-served.ts';
import { type ModelState, UNLOADED } from '../../shared/infer/ports.ts';
import { compareVersions } from '../../shared/model/version-directories.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { ModelSequences } from './sequence/model-sequences.ts';
import type { ServedModel } from './served-model.ts';

/*
 * A version is LOADING, then READY or UNAVAILABLE; a READY one that is unloaded is UNLOADING and then UNAVAILABLE with the
 * reason `unloaded`. The versions of one load become READY together or not at all. While a load runs, what was READY before
 * stays READY, and stays so for good when the load fails.
 */
type VersionState =
  | { readonly state: 'LOADING' }
  | { readonly state: 'READY'; readonly served: ServedModel }
  | { readonly state: 'UNLOADING'; readonly reason: string }
  | { readonly state: 'UNAVAILABLE'; readonly reason: string };

/** What one load brings. */
export interface LoadPlan {
  /** Versions to be READY afterwards, ascending; all others go. */
  readonly versions: readonly string[];
  /** Whether a READY version can be kept as it is. */
  unchanged(version: string): boolean;
  load(version: string, kept: KeptOverLoads): Promise<ServedModel>;
  /** All that this load brought is out of use. */
  readonly dispose: () => Promise<void>;
}

/** What a version finds of those before it. */
export interface KeptOverLoads {
  /** Of this version, so that counters never go back. */
  readonly stats: ModelStats;
  /** Of all versions. */
  readonly sequences: ModelSequences;
}

/** Versions of a model that are loaded at once. */
const LOADS_AT_ONCE = 2;
const NOTHING_TO_DISPOSE = () => Promise.resolve();

/** One model of the repository with the states of its versions. Loads and unloads come one after the other. */
export class ModelLifecycle {
  readonly name: string;
  readonly #logger: Logger;
  readonly #graceMs: number;
  #versions = new Map<string, VersionState>();
  readonly #stats = new Map<string, ModelStats>();
  readonly #sequences: ModelSequences;
  /** Why no version could be derived from the folder; '' when some could, or nobody asked. */
  #folderReason = '';
  /** Why the last load failed while an earlier one serves on. */
  #reloadReason = '';
  #latest: ServedModel | undefined;
  #dispose = NOTHING_TO_DISPOSE;
  readonly #leaving = new Set<ServedModel>();
  readonly #ends = new Set<Promise<void>>();

  /** @param graceMs how long requests in hand may take when their version is unloaded or replaced */
  constructor(name: string, graceMs: number, clock: Clock, logger: Logger) {
    this.name = name;
    this.#graceMs = graceMs;
    this.#sequences = new ModelSequences(clock);
    this.#logger = logger;
  }

  /**
   * Loads all versions of the plan beside those that serve, then switches at once; what it replaces drains.
   * @throws InferError with the reason why a version cannot be served. Then what served before serves on.
   */
  async load(plan: LoadPlan): Promise<void> {
    const loaded = new Map<string, ServedModel>();
    for (const version of plan.versions) {
      if (this.#versions.get(version)?.state !== 'READY') this.#versions.set(version, { state: 'LOADING' });
    }
    const due = plan.versions.filter((version) => !(this.#servedOf(version) && plan.unchanged(version)));
    const failure = await this.#loadAll(plan, due, loaded);
    if (failure) throw await this.#takeBack(plan, loaded, failure.error, failure.version);
    const lost = plan.versions.find((version) => !loaded.has(version) && !this.#servedOf(version));
    if (lost !== undefined) {
      const error = new InferError('UNAVAILABLE', `model "${this.name}" was taken down while it was being loaded`);
      throw await this.#takeBack(plan, loaded, error, lost);
    }
    this.#switchTo(plan, loaded);
  }

  /**
   * A load that ended before it was clear which versions to load. What served before serves on.
   * @param version the one that most likely would have been; undefined when the folder has none
   */
  failed(error: InferError, version: string | undefined): void {
    if (this.#latest) {
      this.#reloadReason = `the last load failed: ${error.message}`;
      return;
    }
    this.#folderReason = error.message;
    this.#versions = new Map(version === undefined ? [] : [[version, { state: 'UNAVAILABLE', reason: error.message }]]);
  }

  /** What the last load could not do is not wanted any more. */
  forgetFailure(): void {
    this.#reloadReason = '';
    for (const [version, { state }] of this.#versions) if (state === 'UNAVAILABLE') this.#versions.delete(version);
  }

  /** What serves goes because of something else, with that reason. */
  fail(reason: string): void {
    this.#unload(reason);
  }

  /** Takes nothing more. What it has in hand is answered, in the background. */
  unload(): void {
    if (this.#folderReason !== '') this.#versions.clear(); // nobody knows whether it had these versions
    this.#folderReason = '';
    this.#reloadReason = '';
    this.#unload(UNLOADED);
  }

  /** @throws InferError NOT_FOUND for a version that is not known or unloaded, UNAVAILABLE for one that is not ready. */
  find(version: string): ServedModel {
    if (version === '') {
      if (this.#latest) return this.#latest;
      throw this.#notReady(this.#sorted().at(-1)?.[1]);
    }
    const known = this.#versions.get(version);
    if (known?.state === 'READY') return known.served;
    if (known || this.#versions.size === 0) throw this.#notReady(known);
    throw unknownVersion(this.name, version);
  }

  states(): ModelState[] {
    if (this.#versions.size === 0) return [{ name: this.name, ...this.#stateOf(undefined) }];
    return this.#sorted().map(([version, known]) => ({ name: this.name, version, ...this.#stateOf(known) }));
  }

  /** Whether nothing keeps the model from serving; one that nobody wants loaded does not count. */
  ready(): boolean {
    if (this.#latest) return true;
    if (this.#versions.size === 0) return this.#folderReason === '';
    return [...this.#versions.values()].every((known) => known.state === 'UNAVAILABLE' && known.reason === UNLOADED);
  }

  /** Some version can be called. */
  get serves(): boolean {
    return this.#latest !== undefined;
  }

  /** Nothing is leaving. */
  get idle(): boolean {
    return this.#ends.size === 0;
  }

  /** Versions that can be called, ascending. */
  served(): ServedModel[] {
    return this.#sorted().flatMap(([, known]) => (known.state === 'READY' ? [known.served] : []));
  }

  /** Requests that wait for a version; 0 for one that cannot be called. */
  pending(version: string): number {
    const served = version === '' ? this.#latest : this.#servedOf(version);
    return served?.scheduler.pending() ?? 0;
  }

  /** Requests in hand, over all versions that can be called. */
  open(): number {
    return this.served().reduce((sum, { scheduler }) => sum + scheduler.open(), 0);
  }

  /** Sequences that are live, over all versions that can be called. */
  sequences(): number {
    return this.served().reduce((sum, { scheduler }) => sum + (scheduler.sequences?.() ?? 0), 0);
  }

  /** Resolves when nothing is leaving any more. */
  async left(): Promise<void> {
    await Promise.all(this.#ends);
  }

  /** Unloads, and waits for all that is still leaving, at most about `graceMs`. */
  async close(graceMs: number): Promise<void> {
    this.unload();
    for (const served of this.#leaving) void served.close(graceMs);
    await Promise.all(this.#ends);
  }

  /** Two at a time. After a failure no other is begun, and the lowest version that failed is the one to tell of. */
  async #loadAll(
    plan: LoadPlan,
    due: readonly string[],
    loaded: Map<string, ServedModel>,
  ): Promise<{ readonly version: string; readonly error: unknown } | undefined> {
    const waiting = [...due];
    const failures = new Map<string, unknown>();
    const loadOnes = async (): Promise<void> => {
      for (let version = waiting.shift(); version !== undefined; version = waiting.shift()) {
        try {
          const kept = { stats: this.#statsOf(version), sequences: this.#sequences };
          loaded.set(version, await plan.load(version, kept));
        } catch (error) {
          waiting.length = 0;
          failures.set(version, error);
        }
      }
    };
    await Promise.all(Array.from({ length: LOADS_AT_ONCE }, loadOnes));
    const version = due.find((each) => failures.has(each));
    return version === undefined ? undefined : { version, error: failures.get(version) };
  }

  /** Nothing of a load that failed stays behind. Returns what to throw. */
  async #takeBack(
    plan: LoadPlan,
    loaded: ReadonlyMap<string, ServedModel>,
    error: unknown,
    version: string,
  ): Promise<InferError> {
    await Promise.allSettled([...loaded.values()].map((served) => served.close(0)));
    await plan.dispose();
    return this.#refuse(error, version);
  }

  #switchTo(plan: LoadPlan, loaded: ReadonlyMap<string, ServedModel>): void {
    const before = this.#versions;
    const kept = new Set<ServedModel>();
    this.#versions = new Map();
    for (const version of plan.versions) {
      const known = before.get(version);
      const served = loaded.get(version) ?? (known?.state === 'READY' ? known.served : undefined);
      if (!served) continue;
      kept.add(served);
      served.relist(plan.versions);
      this.#versions.set(version, { state: 'READY', served });
    }
    for (const version of this.#stats.keys()) if (!this.#versions.has(version)) this.#stats.delete(version);
    this.#latest = this.served().at(-1);
    this.#folderReason = '';
    this.#reloadReason = '';
    const old = [...before.values()].flatMap((known) => (known.state === 'READY' ? [known.served] : []));
    const replaced = old.filter((served) => !kept.has(served));
    // What a kept version needs belongs to the load that brought it, so two loads are then disposed of together.
    const disposeBefore = this.#dispose;
    if (replaced.length === old.length) {
      this.#dispose = plan.dispose;
      this.#letGo(replaced, disposeBefore);
    } else {
      this.#dispose = async () => {
        await disposeBefore();
        await plan.dispose();
      };
      this.#letGo(replaced, NOTHING_TO_DISPOSE);
    }
    for (const [version, served] of loaded) {
      served.stats.describe(served.ready.config);
      this.#logger.info({ model: this.name, version, seconds: served.stats.loadSeconds }, 'model ready');
    }
  }

  #unload(reason: string): void {
    const leaving: ServedModel[] = [];
    for (const [version, known] of this.#versions) {
      if (known.state === 'READY') {
        leaving.push(known.served);
        this.#versions.set(version, { state: 'UNLOADING', reason });
      } else if (known.state !== 'UNLOADING') this.#versions.set(version, { state: 'UNAVAILABLE', reason });
    }
    this.#latest = undefined;
    const versions = this.#versions;
    const dispose = this.#dispose;
    this.#dispose = NOTHING_TO_DISPOSE;
    this.#letGo(leaving, async () => {
      for (const [version, known] of versions) {
        if (known.state === 'UNLOADING') versions.set(version, { state: 'UNAVAILABLE', reason: known.reason });
      }
      await dispose();
    });
  }

  #letGo(leaving: readonly ServedModel[], then: () => Promise<void>): void {
    const end = Promise.all(
      leaving.map(async (served) => {
        this.#leaving.add(served);
        await served.close(this.#graceMs);
        this.#leaving.delete(served);
      }),
    )
      .then(then)
      .catch((error: unknown) => {
        this.#logger.error({ model: this.name, err: error }, 'a version could not be freed');
      })
      .finally(() => this.#ends.delete(end));
    this.#ends.add(end);
  }

  #refuse(cause: unknown, version: string): InferError {
    const error = InferError.from(cause, `model "${this.name}" could not be loaded`);
    for (const [known, { state }] of this.#versions) {
      if (state === 'LOADING') this.#versions.set(known, { state: 'UNAVAILABLE', reason: error.message });
    }
    const text = `version ${version} is at UNAVAILABLE state: ${error.message};`;
    if (this.#latest) this.#reloadReason = `the last load failed: ${text}`;
    return new InferError(error.code, text, { cause: error.cause });
  }

  #servedOf(version: string): ServedModel | undefined {
    const known = this.#versions.get(version);
    return known?.state === 'READY' ? known.served : undefined;
  }

  #statsOf(version: string): ModelStats {
    let stats = this.#stats.get(version);
    if (!stats) this.#stats.set(version, (stats = new ModelStats(this.name, version)));
    return stats;
  }

  #sorted(): [string, VersionState][] {
    return [...this.#versions].sort(([a], [b]) => compareVersions(a, b));
  }

  #stateOf(known: VersionState | undefined): Omit<ModelState, 'name' | 'version'> {
    if (!known) {
      const reason = this.#folderReason;
      return { state: reason === '' ? 'UNKNOWN' : 'UNAVAILABLE', reason };
    }
    if (known.state === 'READY') {
      const { stats, scheduler, remark = '' } = known.served;
      const freePlaces = scheduler.freePlaces?.();
      const { loadSeconds, batching } = stats;
      return {
        state: known.state,
        reason: this.#reloadReason === '' ? remark : this.#reloadReason,
        loadSeconds,
        ...(batching && { batching }),
        ...(freePlaces !== undefined && { freePlaces }),
      };
    }
    return known.state === 'LOADING' ? { state: known.state, reason: '' } : known;
  }

  #notReady(known: VersionState | undefined): InferError {
    return notReady(this.name, this.#stateOf(known));
  }
}
