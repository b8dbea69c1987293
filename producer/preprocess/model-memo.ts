import type { ReadyModel } from '../../shared/model/ready-model.ts';

/**
 * Keeps what was derived from a model's files for as long as the model version is the same: a model that was loaded
 * anew is another object. Failures are not kept, so that a file that could not be read is tried again.
 */
export class ModelMemo<T> {
  readonly #derive: (model: ReadyModel) => Promise<T>;
  readonly #values = new WeakMap<ReadyModel, Promise<T>>();

  constructor(derive: (model: ReadyModel) => Promise<T>) {
    this.#derive = derive;
  }

  get(model: ReadyModel): Promise<T> {
    const known = this.#values.get(model);
    if (known) return known;
    const value = this.#derive(model);
    this.#values.set(model, value);
    value.catch(() => {
      // Whoever waits for the value gets the error.
      this.#values.delete(model);
    });
    return value;
  }
}
