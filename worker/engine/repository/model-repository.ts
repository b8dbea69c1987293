import { InferError } from '../../../shared/errors.ts';
import { unknownModel } from '../../../shared/infer/not-served.ts';
import type { ModelControl, ModelOverride, ModelState } from '../../../shared/infer/ports.ts';
import { memberNames } from '../../../shared/model/ensemble-graph.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { shownText } from '../../../shared/tensor/text.ts';
import { ModelLifecycle } from '../model-lifecycle.ts';
import type { MemberSource, ServedModel } from '../served-model.ts';
import { EnsembleUpkeep } from './ensemble-upkeep.ts';
import { createEntry, type Entry, isNeeded, membersOf, pathOf, servesAlready } from './entry.ts';
import { assertNoCycle } from './ensemble-cycles.ts';
import { fingerprintModel, sameFingerprint } from './fingerprint.ts';
import type { LoadContext } from './load-version.ts';
import { bytesOf, ModelMemory } from './model-memory.ts';
import { assertInside, assertNoLibraries, parseConfigOverride, writeTemporaryFolder } from './model-override.ts';
import { type LoadedSource, planLoad } from './plan-load.ts';
import { newestVersion, readConfig, readModelFolder, type ReadOptions } from './read-model-folder.ts';
import { OnDemand } from './on-demand.ts';
import { RepeatedLook } from './repeated-look.ts';
import { scanRepositories } from './scan-repositories.ts';
import { SharedSessions } from './shared-sessions.ts';
import { WorkLine } from './work-line.ts';

/** Who may change models and when: nobody after the start, the repository itself, or whoever calls the control API. */
export type ControlMode = 'none' | 'poll' | 'explicit';

/** Lets the workers of a pool replace a model one after the other. */
export interface Turns {
  /** Resolves when it is this worker's turn; the answer ends the turn. */
  take(model: string): Promise<() => Promise<void>>;
}

export interface RepositoryOptions {
  /** Paths of model repositories in Triton's layout. */
  readonly repositories: readonly string[];
  readonly mode: ControlMode;
  /** Loaded at start in explicit mode; `*` stands for all. */
  readonly loadAtStart: readonly string[];
  /** How often the folders are looked at in mode poll, in ms. */
  readonly pollMs: number;
  /** `configs/<name>.pbtxt` of a model is read instead of config.pbtxt, where it is there. */
  readonly configName?: string;
  /** How long requests in hand may take when their version is unloaded or replaced, in ms. */
  readonly unloadGraceMs: number;
  /** Whether a request for a model that nobody has loaded loads it. */
  readonly onDemand: boolean;
  /** Bytes of model files that may be loaded at once; models that were loaded on demand make room. Infinity for any number. */
  readonly budgetBytes: number;
  readonly context: LoadContext;
  readonly logger: Logger;
}

/** A change is taken up once two looks so far apart agree, so that a file which is still being copied is let be. */
const SETTLE_MS = 1000;
/** How often explicit mode looks for new folders, which the index shows. */
const INDEX_MS = 5000;
/** How many versions are loaded at once, over all models. */
const LOADS_AT_ONCE = 2;
const NO_TURNS: Turns = { take: () => Promise.resolve(() => Promise.resolve()) };
const NOTHING_TO_DISPOSE = () => Promise.resolve();

/** What a load is to do, and which models it has changed. */
interface Change {
  readonly options: ReadOptions;
  readonly files: ModelOverride['files'];
  readonly changed: string[];
}

/** All models of the repositories: loads, unloads and follows their folders. The only place that changes them. */
export class ModelRepository implements ModelControl, MemberSource {
  readonly #options: RepositoryOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #loads = new WorkLine(LOADS_AT_ONCE);
  readonly #sessions: SharedSessions;
  readonly #room: ModelMemory;
  readonly #onDemand: OnDemand;
  readonly #ensembles: EnsembleUpkeep;
  #turns = NO_TURNS;
  readonly #look: RepeatedLook;
  #closed = false;

  constructor(options: RepositoryOptions) {
    this.#options = options;
    this.#sessions = new SharedSessions(options.context.backend);
    this.#room = new ModelMemory({
      budgetBytes: options.budgetBytes,
      entries: () => this.#entries.values(),
      drop: (entry) => this.#drop(entry),
      logger: options.logger,
    });
    this.#onDemand = new OnDemand({
      enabled: options.onDemand,
      clock: options.context.clock,
      load: (entry, stillWanted) => this.#load(entry, {}, stillWanted),
    });
    const look = options.mode === 'poll' ? () => this.#poll() : () => this.#scan().then(() => INDEX_MS);
    this.#look = new RepeatedLook(look, options.logger);
    this.#ensembles = new EnsembleUpkeep({
      entries: () => this.#entries.values(),
      members: this,
      reload: (name) => this.#loadQuietly(name),
      logger: options.logger,
    });
  }

  /**
   * Loads what the mode says. A model that cannot be loaded is UNAVAILABLE with its reason and stops nothing else.
   * @throws InferError NOT_FOUND when a repository cannot be read.
   */
  async start(): Promise<void> {
    const { mode, loadAtStart, pollMs } = this.#options;
    await this.#scan();
    const all = [...this.#entries.keys()];
    const names = mode !== 'explicit' || loadAtStart.includes('*') ? all : loadAtStart;
    for (const name of names) if (!this.#entries.has(name)) this.#add(name);
    await Promise.all(names.map((name) => this.#loadQuietly(name, true)));
    if (mode !== 'none') this.#look.start(mode === 'poll' ? pollMs : INDEX_MS);
  }

  /** From now on replacing a model waits for its turn. */
  takeTurns(turns: Turns): void {
    this.#turns = turns;
  }

  get mode(): ControlMode {
    return this.#options.mode;
  }

  /** Sorted by name. */
  models(): ModelLifecycle[] {
    const names = [...this.#entries.keys()].sort();
    return names.flatMap((name) => this.#entries.get(name)?.lifecycle ?? []);
  }

  /** Of all models, by name and version. */
  states(): ModelState[] {
    return this.models().flatMap((model) => {
      const states = model.states();
      const entry = this.#entries.get(model.name);
      return entry && this.#onDemand.tries(entry) ? states.map((row) => ({ ...row, wakeable: true })) : states;
    });
  }

  model(name: string): ModelLifecycle | undefined {
    return this.#entries.get(name)?.lifecycle;
  }

  find(name: string, version: string): ServedModel {
    const entry = this.#entries.get(name);
    if (!entry) throw unknownModel(name);
    return entry.lifecycle.find(version);
  }

  async load(name: string, override: ModelOverride = {}): Promise<void> {
    await this.#scan();
    const entry = this.#entries.get(name) ?? (override.files ? this.#add(name) : undefined);
    if (!entry) {
      const text = `failed to load '${shownText(name)}': no model repository has a folder of that name`;
      throw new InferError('NOT_FOUND', text);
    }
    entry.byName = true;
    await this.#load(entry, override);
  }

  /**
   * Loads a model that a request has come for, where that is allowed; undefined when there is nothing to wait for. What
   * keeps it from serving is told by `find` afterwards.
   */
  wake(name: string): Promise<void> | undefined {
    const entry = this.#entries.get(name);
    return entry && !this.#closed ? this.#onDemand.wake(entry) : undefined;
  }

  async unload(name: string, dependents = false): Promise<void> {
    const entry = this.#entries.get(name);
    if (!entry) return;
    const members = dependents ? membersOf(entry) : [];
    await entry.line.next(() => {
      entry.wakeable = false;
      this.#drop(entry);
      return Promise.resolve();
    });
    this.#ensembles.takeDownOf(name);
    for (const member of members) {
      const known = this.#entries.get(member);
      if (known && !known.byName && !isNeeded(member, this.#entries.values())) await this.unload(member, true);
    }
  }

  async close(graceMs: number): Promise<void> {
    this.#closed = true;
    await this.#look.end();
    // A load under way cannot be stopped; those that wait for it end at once.
    await Promise.all([...this.#entries.values()].map(({ line }) => line.settled()));
    // Ensembles first: their members have to answer until then.
    const entries = [...this.#entries.values()];
    const ensembles = entries.filter((entry) => membersOf(entry).length > 0);
    await Promise.all(ensembles.map(({ lifecycle }) => lifecycle.close(graceMs)));
    await Promise.all(entries.map(({ lifecycle }) => lifecycle.close(graceMs)));
  }

  #drop(entry: Entry): void {
    entry.wanted = false;
    entry.byName = false;
    if (entry.loaded) entry.leavingBytes = bytesOf(entry.loaded);
    entry.lifecycle.unload();
    entry.loaded = undefined;
  }

  #add(name: string): Entry {
    const { unloadGraceMs, context, logger } = this.#options;
    const entry = createEntry(name, new ModelLifecycle(name, unloadGraceMs, context.clock, logger));
    this.#entries.set(name, entry);
    return entry;
  }

  /** Follows which folders there are. */
  async #scan(): Promise<void> {
    const { repositories, logger } = this.#options;
    const folders = new Map((await scanRepositories(repositories, logger)).map((folder) => [folder.name, folder]));
    for (const [name, folder] of folders) (this.#entries.get(name) ?? this.#add(name)).folder = folder;
    for (const [name, entry] of this.#entries) {
      if (folders.has(name)) continue;
      entry.folder = undefined;
      if (!entry.wanted && entry.lifecycle.idle && !entry.line.busy) this.#entries.delete(name);
    }
  }

  async #loadQuietly(name: string, byName = false): Promise<void> {
    const entry = this.#entries.get(name);
    if (!entry) return;
    entry.byName ||= byName;
    try {
      await this.#load(entry, {});
    } catch {
      // The state of the model holds the reason, and the log has it.
    }
  }

  /** @param stillWanted asked when its turn has come */
  async #load(entry: Entry, override: ModelOverride, stillWanted = () => true): Promise<void> {
    const { config, files } = override;
    const options = this.#readOptions(entry.name, config); // what is wrong with the request is no state of the model
    if (files) for (const path of files.keys()) assertInside(entry.name, path);
    const changed: string[] = [];
    try {
      await entry.line.next(async () => {
        if (stillWanted()) await this.#change(entry, { options, files, changed });
      });
    } finally {
      // Without any line: an ensemble that comes back may need the models whose lines were held.
      for (const name of changed) await this.#ensembles.reconsider(name);
    }
  }

  /** One load, from reading the folder to the switch. The line of the entry is held. */
  async #change(entry: Entry, { options, files, changed }: Change): Promise<void> {
    const { name, lifecycle } = entry;
    const { logger, context } = this.#options;
    if (this.#closed) throw new InferError('UNAVAILABLE', 'the server is shutting down');
    entry.wanted = true;
    entry.wakeable = true;
    let dispose = NOTHING_TO_DISPOSE;
    let endTurn: (() => Promise<void>) | undefined;
    let planned = false;
    try {
      const temporary = files && (await writeTemporaryFolder(name, files));
      if (temporary) dispose = temporary.remove;
      const path = temporary?.path ?? pathOf(entry);
      const fingerprint = temporary ? undefined : await fingerprintModel(path);
      entry.attempted = fingerprint;
      if (!options.config && servesAlready(entry, fingerprint)) {
        lifecycle.forgetFailure(); // the folder is again what serves
        return;
      }
      await this.#loadMembers(entry, path, options, changed);
      const source = await readModelFolder({ name, path }, logger, options, context.backend);
      if (temporary) assertNoLibraries(source.config);
      const now: LoadedSource = { source, fingerprint };
      const before = entry.loaded;
      await this.#room.makeFor(entry, now);
      const plan = await planLoad({
        now,
        before,
        members: this,
        context: { ...context, inBackground: lifecycle.serves },
        loads: this.#loads,
        sessions: this.#sessions,
        dispose,
      });
      if (lifecycle.serves) endTurn = await this.#turns.take(name);
      dispose = NOTHING_TO_DISPOSE; // the plan does it from here on
      planned = true;
      await lifecycle.load(plan);
      entry.loaded = now;
      entry.delay.over();
      entry.members = entry.namedMembers;
      entry.overridden = options.config !== undefined;
      changed.push(name);
      const misfit = entry.members.length > 0 ? this.#ensembles.verify(entry) : undefined;
      if (misfit !== undefined) throw new InferError('UNAVAILABLE', misfit); // a member has changed meanwhile
    } catch (error) {
      await dispose();
      throw await this.#refused(entry, error, planned);
    } finally {
      entry.reservedBytes = 0;
      await endTurn?.();
    }
  }

  #readOptions(name: string, config: string | undefined): ReadOptions {
    const { configName } = this.#options;
    return {
      ...(config !== undefined && { config: parseConfigOverride(name, config) }),
      ...(configName !== undefined && { configName }),
    };
  }

  /** Before an ensemble, the models that it is made of. @throws InferError when one of them cannot be loaded */
  async #loadMembers(
    entry: Entry,
    path: string,
    { config, configName }: ReadOptions,
    changed: string[],
  ): Promise<void> {
    const { name } = entry;
    const written = config ?? (await readConfig(name, path, configName));
    const members = [...new Set(memberNames(written).map(({ model }) => model))];
    entry.namedMembers = members;
    if (members.length === 0) return;
    await assertNoCycle(name, members, (member) => this.#membersOf(member));
    const options = this.#readOptions(name, undefined);
    for (const member of members) {
      const known = this.#entries.get(member);
      if (!known) throw new InferError('NOT_FOUND', `model "${name}": no model repository has its step "${member}"`);
      if (known.lifecycle.serves) continue;
      try {
        await known.line.next(() => this.#change(known, { options, files: undefined, changed }));
      } catch (error) {
        const { code, message } = InferError.from(error);
        throw new InferError(code, `model "${name}": its step "${member}" cannot be loaded: ${message}`);
      }
    }
  }

  /** By what lies in its folder, and by what it was loaded with. */
  async #membersOf(name: string): Promise<readonly string[]> {
    const entry = this.#entries.get(name);
    if (!entry) return [];
    const { folder, members, namedMembers } = entry;
    const { configName } = this.#options;
    const config = folder && (await readConfig(name, folder.path, configName).catch(() => undefined)); // its own load says why
    const written = config ? memberNames(config).map(({ model }) => model) : [];
    return [...written, ...members, ...namedMembers];
  }

  /** @param known whether the model's states hold the reason already */
  async #refused(entry: Entry, thrown: unknown, known: boolean): Promise<InferError> {
    const { name, lifecycle, folder, line } = entry;
    const error = InferError.from(thrown, `model "${name}" could not be loaded`);
    const { code, message: reason, cause } = error;
    this.#options.logger.error({ model: name, code, reason, cause }, 'model failed to load');
    if (!known) lifecycle.failed(error, folder && (await newestVersion(folder.path)));
    entry.failed = entry.attempted;
    if (code !== 'RESOURCE_EXHAUSTED') entry.delay.failed(this.#options.context.clock.now()); // room may come at any moment
    // What may pass is tried again when the folder is looked at next.
    if (code === 'UNAVAILABLE' || code === 'RESOURCE_EXHAUSTED') entry.attempted = undefined;
    const isNobodys = !folder && !lifecycle.serves && line.waiting === 0 && code !== 'NOT_FOUND';
    if (isNobodys) this.#entries.delete(name); // its files came along
    return new InferError(error.code, `load failed for model '${name}': ${error.message}`, { cause: error });
  }

  /** Takes up what has changed and settled. Returns when to look again, in ms. */
  async #poll(): Promise<number> {
    const { pollMs } = this.#options;
    await this.#scan();
    let unsettled = false;
    for (const entry of [...this.#entries.values()]) {
      if (!entry.folder) {
        await this.unload(entry.name);
        continue;
      }
      const fingerprint = await fingerprintModel(entry.folder.path);
      if (sameFingerprint(fingerprint, entry.attempted)) continue;
      if (sameFingerprint(fingerprint, entry.seen)) await this.#loadQuietly(entry.name);
      else unsettled = true;
      entry.seen = fingerprint;
    }
    return unsettled ? Math.min(SETTLE_MS, pollMs) : pollMs;
  }
}
