import { InferError } from '../../../../../shared/errors.ts';

/** Memory that a load has been granted and not taken yet. */
export interface Hold {
  /** One of its sessions is open: what it takes is gone from the free memory now. */
  took(bytes: number): void;
  /** The rest is not needed. */
  drop(): void;
}

/** What loads that are under way are going to take of GPUs, so that no two of them count on the same memory. */
export class GpuRoom {
  readonly #held = new Map<number, number>();

  /**
   * @param weights bytes of one session
   * @param sessions how many of them are to be opened
   * @param free bytes that CUDA says are free
   * @throws InferError RESOURCE_EXHAUSTED with what is needed, what there is and how many would fit
   */
  hold(gpu: number, weights: number, sessions: number, free: number): Hold {
    const others = this.#held.get(gpu) ?? 0;
    const room = Math.max(0, free - others);
    const needed = weights * sessions;
    if (needed > room) throw noRoom(gpu, weights, sessions, room, others);
    let left = needed;
    const give = (bytes: number): void => {
      const given = Math.min(bytes, left);
      left -= given;
      this.#held.set(gpu, (this.#held.get(gpu) ?? 0) - given);
    };
    this.#held.set(gpu, others + needed);
    return { took: give, drop: () => give(left) };
  }
}

/** The memory of one model's sessions, set aside from the first look at its weights until they are open. */
export class SessionRoom {
  readonly #weights: number;
  readonly #holdOn: (gpu: number, sessions: number) => Hold | undefined;
  readonly #holds = new Map<number, { readonly hold: Hold | undefined; sessions: number }>();

  /** @param holdOn undefined where nobody knows what is free */
  constructor(weights: number, holdOn: (gpu: number, sessions: number) => Hold | undefined) {
    this.#weights = weights;
    this.#holdOn = holdOn;
  }

  /**
   * For all sessions that a load opens.
   * @param instances how many, by the number of the GPU
   * @throws InferError RESOURCE_EXHAUSTED, and nothing is held
   */
  prepare(instances: Readonly<Record<number, number>>): void {
    try {
      for (const [gpu, sessions] of Object.entries(instances)) {
        this.#holds.set(Number(gpu), { hold: this.#holdOn(Number(gpu), sessions), sessions });
      }
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  /**
   * Opens one of them, or one beyond, as a version that shares the model file needs.
   * @throws InferError RESOURCE_EXHAUSTED; what `open` throws
   */
  async open<Session>(gpu: number, open: () => Promise<Session>): Promise<Session> {
    const prepared = this.#holds.get(gpu);
    if (prepared && prepared.sessions > 0) {
      prepared.sessions -= 1;
      return await this.#opened(prepared.hold, open);
    }
    return await this.#opened(this.#holdOn(gpu, 1), open);
  }

  drop(): void {
    for (const { hold } of this.#holds.values()) hold?.drop();
    this.#holds.clear();
  }

  async #opened<Session>(hold: Hold | undefined, open: () => Promise<Session>): Promise<Session> {
    try {
      return await open();
    } finally {
      hold?.took(this.#weights);
    }
  }
}

function noRoom(gpu: number, weights: number, sessions: number, room: number, others: number): InferError {
  const many = sessions > 1 ? `${sessions} instances of it take ${megabytes(weights * sessions)}, ` : '';
  const beside = others > 0 ? ` beside the models that are being loaded` : '';
  const fit = Math.floor(room / weights);
  const fits = fit === 0 ? 'no instance fits' : fit === 1 ? '1 instance fits' : `${fit} instances fit`;
  const text = `the weights of the model take ${megabytes(weights)}, ${many}and ${megabytes(room)} are free${beside}: ${fits}`;
  return new InferError('RESOURCE_EXHAUSTED', `GPU ${gpu} has no room for the model: ${text}`);
}

/** `16.8 MB`, of a million bytes. */
export function megabytes(bytes: number): string {
  const value = bytes / 1e6;
  return `${value >= 100 ? Math.round(value) : Number(value.toFixed(1))} MB`;
}
