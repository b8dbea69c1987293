import { InferError } from '../../shared/errors.ts';
import type { ModelState } from '../../shared/infer/ports.ts';
import { compareVersions } from '../../shared/model/version-directories.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { LoadContext, ServedModel } from './repository/load-version.ts';
import { loadVersion } from './repository/load-version.ts';
import { findModelFiles } from './repository/model-files.ts';
import { readModelFolder } from './repository/read-model-folder.ts';
import type { ModelFolder } from './repository/scan-repositories.ts';

/*
 * A version is LOADING, then READY or UNAVAILABLE; a READY one that is closed is UNLOADING and then UNAVAILABLE with the
 * reason `unloaded`. The versions of one load become READY together or not at all.
 */
type VersionState =
  | { readonly state: 'LOADING' }
  | { readonly state: 'READY'; readonly served: ServedModel }
  | { readonly state: 'UNLOADING'; readonly served: ServedModel }
  | { readonly state: 'UNAVAILABLE'; readonly reason: string };

const UNLOADED = 'unloaded';

/** One model of the repository with the states of its versions. */
export class ModelLifecycle {
  readonly name: string;
  readonly #folder: ModelFolder;
  readonly #logger: Logger;
  readonly #versions = new Map<string, VersionState>();
  /** Why no version could be derived from the folder; '' when some could. */
  #folderReason = '';
  #latest: ServedModel | undefined;

  constructor(folder: ModelFolder, logger: Logger) {
    this.name = folder.name;
    this.#folder = folder;
    this.#logger = logger;
  }

  /** Loads all versions that the policy chooses. Never throws: what went wrong becomes the reason of the state. */
  async load(context: LoadContext): Promise<void> {
    let versions: readonly string[] = [];
    const loaded: ServedModel[] = [];
    try {
      if (this.#folder.conflict !== '') throw new InferError('UNAVAILABLE', this.#folder.conflict);
      const source = await readModelFolder(this.#folder, this.#logger);
      versions = source.versions;
      for (const version of versions) this.#set(version, { state: 'LOADING' });
      const files = await findModelFiles(source.path);
      for (const version of versions) loaded.push(await loadVersion(source, version, files, context));
      for (const served of loaded) this.#set(served.ready.version, { state: 'READY', served });
    } catch (error) {
      const { code, message, cause } = InferError.from(error, `model "${this.name}" could not be loaded`);
      this.#logger.error({ model: this.name, code, reason: message, cause }, 'model failed to load');
      await Promise.all(loaded.map((served) => served.close(0)));
      if (versions.length === 0) this.#folderReason = message;
      for (const version of versions) this.#set(version, { state: 'UNAVAILABLE', reason: message });
    }
  }

  /** @throws InferError NOT_FOUND for a version that is not known, UNAVAILABLE for one that is not ready. */
  find(version: string): ServedModel {
    if (version === '') {
      if (this.#latest) return this.#latest;
      throw this.#notReady(this.#folderReason || this.#reasonOf(this.#newest()));
    }
    const known = this.#versions.get(version);
    if (known?.state === 'READY') return known.served;
    if (known) throw this.#notReady(this.#reasonOf(known));
    if (this.#versions.size === 0) throw this.#notReady(this.#folderReason);
    const text = `Request for unknown model: '${this.name}' version ${version} is not found`;
    throw new InferError('NOT_FOUND', text);
  }

  states(): ModelState[] {
    if (this.#versions.size === 0) {
      return [{ name: this.name, state: 'UNAVAILABLE', reason: this.#folderReason || 'not loaded yet' }];
    }
    return this.#sorted().map(([version, known]) => {
      const reason = known.state === 'UNAVAILABLE' ? known.reason : '';
      return { name: this.name, version, state: known.state, reason };
    });
  }

  /** Whether nothing keeps the model from serving; one that was unloaded on purpose does not count. */
  ready(): boolean {
    if (this.#versions.size === 0) return false;
    for (const known of this.#versions.values()) {
      const fine = known.state === 'READY' || (known.state === 'UNAVAILABLE' && known.reason === UNLOADED);
      if (!fine) return false;
    }
    return true;
  }

  /** Versions that can be called, ascending. */
  served(): ServedModel[] {
    return this.#sorted().flatMap(([, known]) => (known.state === 'READY' ? [known.served] : []));
  }

  /** Requests that wait for a version; 0 for one that cannot be called. */
  pending(version: string): number {
    if (version === '') return this.#latest?.scheduler.pending() ?? 0;
    const known = this.#versions.get(version);
    return known?.state === 'READY' ? known.served.scheduler.pending() : 0;
  }

  async close(graceMs: number): Promise<void> {
    await Promise.all(
      this.served().map(async (served) => {
        const { version } = served.ready;
        this.#set(version, { state: 'UNLOADING', served });
        await served.close(graceMs);
        this.#set(version, { state: 'UNAVAILABLE', reason: UNLOADED });
      }),
    );
  }

  #set(version: string, state: VersionState): void {
    this.#versions.set(version, state);
    this.#latest = this.served().at(-1);
    if (state.state !== 'READY') return;
    const seconds = state.served.stats.loadSeconds;
    this.#logger.info({ model: this.name, version, seconds }, 'model ready');
  }

  #sorted(): [string, VersionState][] {
    return [...this.#versions].sort(([a], [b]) => compareVersions(a, b));
  }

  #newest(): VersionState | undefined {
    return this.#sorted().at(-1)?.[1];
  }

  #reasonOf(known: VersionState | undefined): string {
    if (known?.state === 'UNAVAILABLE') return known.reason;
    return known?.state === 'UNLOADING' ? 'it is being unloaded' : 'it is being loaded';
  }

  #notReady(reason: string): InferError {
    return new InferError('UNAVAILABLE', `model '${this.name}' is not ready: ${reason || 'it is being loaded'}`);
  }
}
