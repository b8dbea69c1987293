import type { DirectorySnapshot } from '../../shared/directory/directory-reader.ts';
import type { ModelDescription } from '../../shared/directory/model-description.ts';
import type { WorkerRecord } from '../../shared/directory/worker-record.ts';
import { notReady, unknownModel, unknownVersion } from '../../shared/infer/not-served.ts';
import { type ModelCatalog, type ModelState, UNLOADED } from '../../shared/infer/ports.ts';
import { createReadyModel } from '../../shared/model/create-ready-model.ts';
import type { ModelFiles, ReadyModel } from '../../shared/model/ready-model.ts';
import { sequenceIdleMs } from '../../shared/model/sequence-routing.ts';

type KnownModels = Pick<DirectorySnapshot, 'workers' | 'descriptions'>;

interface Version {
  readonly state: ModelState;
  /** Set when the version is described: it can be called, or could be when a worker was there. */
  readonly ready: ReadyModel | undefined;
}

interface Model {
  readonly name: string;
  /** Some living worker says something of it: it has it, had it, or loads it when a request comes. */
  readonly announced: boolean;
  /** By version, ascending; '' stands for a folder without any. */
  readonly versions: ReadonlyMap<string, Version>;
}

export const NO_WORKER_REASON = 'no worker serves this model now';

/**
 * The models of the pool as the directory tells them. A model is READY when one living worker has it ready. One whose
 * workers are all gone stays callable: requests wait in the queue for a worker until their deadline.
 */
export class QueueCatalog implements ModelCatalog {
  readonly #filesOf: (description: ModelDescription) => ModelFiles;
  #models: ReadonlyMap<string, Model> = new Map();
  /** Versions by model. */
  #described: ReadonlyMap<string, string[]> = new Map();
  /** Those that take new work. */
  #workers: readonly WorkerRecord[] = [];
  #alive: ReadonlySet<string> = new Set();
  #records: readonly WorkerRecord[] = [];
  /** Built once per description and set of versions, so that callers may hang their own caches on it. */
  #built = new Map<string, ReadyModel>();

  constructor(filesOf: (description: ModelDescription) => ModelFiles) {
    this.#filesOf = filesOf;
  }

  update(snapshot: KnownModels): void {
    const previous = this.#built;
    this.#built = new Map();
    const models = new Map<string, Model>();
    for (const [name, entries] of gather(snapshot)) {
      const versions = [...entries.keys()].sort(byNumber);
      const readyVersions = versions.filter((version) => entries.get(version)?.state.state === 'READY');
      const callable = readyVersions.length > 0 ? readyVersions : versions;
      models.set(name, {
        name,
        announced: [...entries.values()].some((entry) => entry.announced),
        versions: new Map(
          versions.map((version) => {
            const entry = entries.get(version);
            const state = entry?.state ?? unserved(name, version);
            return [version, { state, ready: this.#build(entry, callable, previous) }];
          }),
        ),
      });
    }
    this.#models = models;
    this.#described = versionsByName(snapshot);
    this.#workers = snapshot.workers.filter((worker) => !worker.draining);
    this.#alive = new Set(snapshot.workers.map(({ id }) => id));
    this.#records = snapshot.workers;
  }

  resolve(name: string, version: string): ReadyModel {
    const model = this.#models.get(name);
    if (!model) throw unknownModel(name);
    const chosen = version === '' ? pickLatest(model) : model.versions.get(version);
    if (!chosen) throw unknownVersion(name, version);
    if (chosen.ready && (chosen.state.state === 'READY' || !model.announced)) return chosen.ready;
    throw notReady(name, chosen.state);
  }

  list(): readonly ModelState[] {
    const names = [...this.#models.keys()].sort();
    return names.flatMap((name) => [...(this.#models.get(name)?.versions.values() ?? [])].map((entry) => entry.state));
  }

  ready(): boolean {
    if (this.#workers.length === 0) return false;
    for (const model of this.#models.values()) if (model.announced && !isReady(model)) return false;
    return true;
  }

  /** Whether a living worker has the model ready. */
  served(name: string): boolean {
    const model = this.#models.get(name);
    return model !== undefined && [...model.versions.values()].some((version) => version.state.state === 'READY');
  }

  /** Whether every worker that serves the model serves this version of it. */
  servedByAll(name: string, version: string): boolean {
    return this.#workers.every(({ models }) => {
      const ready = models.filter((model) => model.name === name && model.state === 'READY');
      return ready.length === 0 || ready.some((model) => model.version === version);
    });
  }

  /** Whether no worker serves the model and some load it when a request comes for it. */
  wakeable(name: string): boolean {
    const model = this.#models.get(name);
    if (!model?.announced || this.served(name)) return false;
    return this.#workers.some(({ models }) => models.some((row) => row.name === name && row.wakeable === true));
  }

  /** Ids of the workers that take new work for this version of the model; '' for the one that it resolves to. */
  workersServing(name: string, version: string): string[] {
    const model = this.#models.get(name);
    const wanted = version === '' && model ? pickLatest(model)?.state.version : version;
    return this.#workers
      .filter(({ models }) => models.some((m) => m.name === name && m.version === wanted && m.state === 'READY'))
      .map(({ id }) => id);
  }

  /** How many more sequences of a model version the worker has places for, about; undefined when it does not tell. */
  freePlaces(worker: string, name: string, version: string): number | undefined {
    const record = this.#workers.find(({ id }) => id === worker);
    return record?.models.find((model) => model.name === name && model.version === version)?.freePlaces;
  }

  /** All versions that the directory knows of, those that no worker serves any more too, for a while. */
  knownVersions(name: string): string[] {
    return this.#described.get(name) ?? [];
  }

  /** The queues that single workers take the sequences of a model from. */
  workerQueues(): readonly { readonly model: string; readonly worker: string }[] {
    return this.#workers.flatMap(({ id: worker, models }) => {
      const names = models.filter(({ name, version = '', state }) => {
        const ready = state === 'READY' ? this.#models.get(name)?.versions.get(version)?.ready : undefined;
        return ready !== undefined && this.sequenceIdleMs(ready) !== undefined;
      });
      return [...new Set(names.map(({ name }) => name))].map((model) => ({ model, worker }));
    });
  }

  /** How long a sequence of the model may be silent, in ms; undefined for a model whose requests belong to no sequences. */
  sequenceIdleMs({ config }: ReadyModel): number | undefined {
    return sequenceIdleMs(config, (name, version) => {
      const model = this.#models.get(name);
      return (version === '' ? model && pickLatest(model) : model?.versions.get(version))?.ready?.config;
    });
  }

  /** Whether the worker is there, even if it takes nothing new. */
  isAlive(worker: string): boolean {
    return this.#alive.has(worker);
  }

  /** All living workers, those too that take nothing new. */
  workers(): readonly WorkerRecord[] {
    return this.#records;
  }

  /** Ids of the living workers that load and unload on request. */
  controlledWorkers(): string[] {
    return this.#workers.filter(({ controlled }) => controlled).map(({ id }) => id);
  }

  /** Whether any worker is alive and takes work. */
  hasWorkers(): boolean {
    return this.#workers.length > 0;
  }

  names(): string[] {
    return [...this.#models.keys()];
  }

  #build(
    entry: Entry | undefined,
    versions: readonly string[],
    previous: ReadonlyMap<string, ReadyModel>,
  ): ReadyModel | undefined {
    if (!entry?.description) return undefined;
    const key = `${entry.hash} ${versions.join(',')}`;
    const known = previous.get(key) ?? this.#create(entry.description, versions);
    this.#built.set(key, known);
    return known;
  }

  #create(description: ModelDescription, versions: readonly string[]): ReadyModel {
    const { config, version, labels, identity } = description;
    return createReadyModel({ config, version, versions, labels, files: this.#filesOf(description), identity });
  }
}

interface Entry {
  state: ModelState;
  announced: boolean;
  hash: string;
  description: ModelDescription | undefined;
}

/** All versions by model name and version, the best state of each. */
function gather({ workers, descriptions }: KnownModels): Map<string, Map<string, Entry>> {
  const models = new Map<string, Map<string, Entry>>();
  const entriesOf = (name: string): Map<string, Entry> => {
    let entries = models.get(name);
    if (!entries) {
      entries = new Map<string, Entry>();
      models.set(name, entries);
    }
    return entries;
  };
  for (const worker of workers) {
    if (worker.draining) continue;
    for (const { description: hash = '', wakeable, ...state } of worker.models) {
      const entries = entriesOf(state.name);
      const known = entries.get(state.version ?? '');
      // A worker that has never loaded it says nothing of it: others may serve it as soon as they are there.
      const announced = state.state !== 'UNKNOWN' || wakeable === true;
      if (known) known.announced ||= announced;
      if (known && rank(known.state) >= rank(state)) continue;
      const wasAnnounced = known?.announced ?? false;
      const found = descriptions.get(hash);
      // A record that names the description of another model is none of a worker of ours.
      const isOwn = found?.name === state.name && found.version === state.version;
      const description = isOwn ? found : undefined;
      entries.set(state.version ?? '', { state, announced: announced || wasAnnounced, hash, description });
    }
  }
  for (const entries of models.values()) if (entries.size > 1) entries.delete(''); // somebody knows its versions
  for (const [hash, description] of descriptions) {
    const { name, version } = description;
    const entries = models.get(name);
    // Living workers know better which versions there are.
    if (entries && [...entries.values()].some((entry) => entry.announced)) continue;
    entries?.delete(''); // its versions are known after all
    entriesOf(name).set(version, { state: unserved(name, version), announced: false, hash, description });
  }
  return models;
}

function versionsByName({ descriptions }: KnownModels): Map<string, string[]> {
  const versions = new Map<string, string[]>();
  for (const { name, version } of descriptions.values()) {
    const known = versions.get(name);
    if (!known) versions.set(name, [version]);
    else if (!known.includes(version)) known.push(version);
  }
  return versions;
}

function rank(state: ModelState): number {
  return ['UNKNOWN', 'UNAVAILABLE', 'UNLOADING', 'LOADING', 'READY'].indexOf(state.state);
}

function unserved(name: string, version: string): ModelState {
  return { name, version, state: 'UNAVAILABLE', reason: NO_WORKER_REASON };
}

function isReady(model: Model): boolean {
  // A model that nobody asked for, or that was unloaded on purpose, does not count, as in Triton.
  const states = [...model.versions.values()].map((version) => version.state);
  if (states.some(({ state }) => state === 'READY')) return true;
  return states.every(({ state, reason }) => state === 'UNKNOWN' || (state === 'UNAVAILABLE' && reason === UNLOADED));
}

/** The highest version that is ready; without any, the highest that is described; without that, the highest. */
function pickLatest(model: Model): Version | undefined {
  const versions = [...model.versions.values()].reverse();
  return (
    versions.find((version) => version.state.state === 'READY') ??
    versions.find((version) => version.ready) ??
    versions[0]
  );
}

function byNumber(a: string, b: string): number {
  return Number(a) - Number(b);
}
