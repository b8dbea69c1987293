/** Jobs of one model that run at one time: enough for batches to fill while others run. */
const MAX_RUNNING = 128;

interface Waiting<T> {
  readonly job: T;
  readonly priority: number;
}

/** The jobs of one model that wait for their turn: by priority, and by arrival among equals. */
export class JobLine<T> {
  readonly #run: (job: T) => Promise<void>;
  /** The next one last. */
  readonly #waiting: Waiting<T>[] = [];
  #running = 0;

  /** @param run begins a job; resolves when the next one may, and never rejects */
  constructor(run: (job: T) => Promise<void>) {
    this.#run = run;
  }

  /** Begins at the end of this turn of the loop at the earliest. */
  push(job: T, priority: number): void {
    // Behind all of the same priority: they are after it in the list.
    let low = 0;
    let high = this.#waiting.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#waiting[middle]?.priority ?? 0) > priority) low = middle + 1;
      else high = middle;
    }
    this.#waiting.splice(low, 0, { job, priority });
    setImmediate(() => this.#pump());
  }

  remove(job: T): void {
    const index = this.#waiting.findIndex((waiting) => waiting.job === job);
    if (index !== -1) this.#waiting.splice(index, 1);
  }

  /** How many run before this one; undefined when it does not wait. */
  position(job: T): number | undefined {
    const index = this.#waiting.findIndex((waiting) => waiting.job === job);
    return index === -1 ? undefined : this.#waiting.length - 1 - index;
  }

  #pump(): void {
    while (this.#running < MAX_RUNNING) {
      const next = this.#waiting.pop();
      if (!next) return;
      this.#running += 1;
      void this.#run(next.job).then(() => {
        this.#running -= 1;
        this.#pump();
      });
    }
  }
}
