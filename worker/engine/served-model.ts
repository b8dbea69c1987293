import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { Grace } from './schedule/grace.ts';
import type { Scheduler } from './schedule/scheduler.ts';

/** A model version that answers requests. */
export interface ServedModel {
  readonly ready: ReadyModel;
  readonly scheduler: Scheduler;
  readonly stats: ModelStats;
  /** What of it runs elsewhere than asked for; '' when nothing does, absent where nobody looks. */
  readonly remark?: string;
  /** The model's list of ready versions has changed, this one is the same. */
  relist(versions: readonly string[]): void;
  /** What the model computes has changed with the models that it is made of. */
  reidentify(identity: string | undefined): void;
  /**
   * Keeps the version answering until the pin is released: an ensemble pins its members for each request, so that no
   * request meets two versions of one. Returns the release, which counts once.
   */
  pin(): () => void;
  /**
   * Waits for the pins, ends the scheduler and frees the model, all within about `graceMs`. When called again, the shorter
   * grace holds.
   */
  close(graceMs: number): Promise<void>;
}

/** Where an ensemble finds its members. */
export interface MemberSource {
  /**
   * The version that answers now ('' = the latest ready one).
   * @throws InferError NOT_FOUND for an unknown model or version, UNAVAILABLE for one that is not ready.
   */
  find(name: string, version: string): ServedModel;
}

export interface ServedParts {
  readonly ready: ReadyModel;
  readonly scheduler: Scheduler;
  readonly stats: ModelStats;
  /** Default ''. */
  readonly remark?: string;
  readonly clock: Clock;
  /** Frees what the scheduler ran on; not called when a run that does not stop still uses it. */
  readonly release: () => Promise<void>;
}

export function serveModel(parts: ServedParts): ServedModel {
  return new PinnedModel(parts);
}

class PinnedModel implements ServedModel {
  readonly scheduler: Scheduler;
  readonly stats: ModelStats;
  readonly remark: string;
  readonly #release: () => Promise<void>;
  readonly #grace: Grace;
  #ready: ReadyModel;
  #pins = 0;
  #closed: Promise<void> | undefined;
  #ending = false;

  constructor({ ready, scheduler, stats, remark = '', clock, release }: ServedParts) {
    this.#ready = ready;
    this.scheduler = scheduler;
    this.stats = stats;
    this.remark = remark;
    this.#release = release;
    this.#grace = new Grace(clock);
  }

  get ready(): ReadyModel {
    return this.#ready;
  }

  relist(versions: readonly string[]): void {
    const same = versions.length === this.#ready.versions.length;
    if (same && versions.every((version, index) => version === this.#ready.versions[index])) return;
    this.#ready = { ...this.#ready, versions };
  }

  reidentify(identity: string | undefined): void {
    this.#ready = { ...this.#ready, identity };
  }

  pin(): () => void {
    this.#pins += 1;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#pins -= 1;
      this.#grace.notice();
    };
  }

  close(graceMs: number): Promise<void> {
    this.#grace.shorten(graceMs);
    if (this.#ending) void this.scheduler.close(this.#grace.leftMs);
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.#grace.until(() => this.#pins === 0);
    this.#ending = true;
    if (await this.scheduler.close(this.#grace.leftMs)) await this.#release();
  }
}
