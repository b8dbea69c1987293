import type { Backend, LoadedModel } from '../instance/instance.ts';

interface Shared {
  readonly loaded: Promise<LoadedModel>;
  users: number;
}

/** A backend that is passed on has to pass on what is optional too: a member that is not thought of does not compile. */
type EveryMember = { readonly [Name in keyof Required<Backend>]: Backend[Name] };

/**
 * Loads a model file once for all that use it in the same way. So a version whose config changes in something that its
 * session does not depend on, `instance_group` for instance, is made anew over the session that is there.
 */
export class SharedSessions {
  readonly #backend: Backend;
  readonly #shared = new Map<string, Shared>();

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /**
   * Loads a version's file, or shares it with who has loaded it. Closing what it gives frees it after its last user.
   * @param marks tells whether the version's files are the same; undefined where that is not known, and nothing is shared
   */
  backendFor(marks: string | undefined): Backend {
    const backend = this.#backend;
    if (marks === undefined) return backend;
    const { load, devices }: EveryMember = {
      load: (options, inBackground) => {
        // The marks do not tell of them.
        if (options.customOpLibraries.length > 0) return backend.load(options, inBackground);
        return this.#share(`${JSON.stringify(options)}\n${marks}`, () => backend.load(options, inBackground));
      },
      devices: backend.devices?.bind(backend),
    };
    return devices ? { load, devices } : { load };
  }

  async #share(key: string, load: () => Promise<LoadedModel>): Promise<LoadedModel> {
    const shared = this.#shared.get(key) ?? { loaded: load(), users: 0 };
    this.#shared.set(key, shared);
    shared.users += 1;
    let loaded: LoadedModel;
    try {
      loaded = await shared.loaded;
    } catch (error) {
      this.#leave(key, shared);
      throw error;
    }
    let closed: Promise<void> | undefined;
    return { ...loaded, close: () => (closed ??= this.#leave(key, shared) ? loaded.close() : Promise.resolve()) };
  }

  /** Whether nobody uses it any more. */
  #leave(key: string, shared: Shared): boolean {
    shared.users -= 1;
    if (shared.users > 0) return false;
    this.#shared.delete(key);
    return true;
  }
}
