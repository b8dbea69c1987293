import { InferError } from '../../../shared/errors.ts';
import type { StateTensor } from '../../../shared/model/sequence-tensors.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { shownShape } from '../../../shared/tensor/text.ts';
import type { Sequence } from './sequence.ts';

/** For all live sequences of a model version. */
const MAX_BYTES = 1024 * 1024 * 1024;

/** Keeps the states of the sequences of one model version, within a bound. */
export class KeptStates {
  readonly #model: string;
  readonly #states: readonly StateTensor[];
  readonly #batched: boolean;
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(model: string, states: readonly StateTensor[], batched: boolean, maxBytes = MAX_BYTES) {
    this.#model = model;
    this.#states = states;
    this.#batched = batched;
    this.#maxBytes = maxBytes;
  }

  /** Bytes of all states. */
  get byteLength(): number {
    return this.#bytes;
  }

  /**
   * The outputs of a run become the sequence's states. When it throws, they stay as they are.
   * @throws InferError INTERNAL when the model did not give what its config says, RESOURCE_EXHAUSTED when there is no room.
   */
  keep(sequence: Sequence, outputs: readonly Tensor[]): void {
    if (this.#states.length === 0) return;
    const kept = this.#states.map((state) => this.#stateFrom(state, outputs));
    const bytes = kept.reduce((sum, { data }) => sum + data.byteLength, 0);
    if (this.#bytes - sequence.stateBytes + bytes > this.#maxBytes) {
      const text = `the states of all sequences of model '${this.#model}' would exceed ${this.#maxBytes} bytes`;
      throw new InferError('RESOURCE_EXHAUSTED', text);
    }
    this.#bytes += bytes - sequence.stateBytes;
    sequence.states = kept;
    sequence.stateBytes = bytes;
  }

  drop(sequence: Sequence): void {
    this.#bytes -= sequence.stateBytes;
    sequence.states = [];
    sequence.stateBytes = 0;
  }

  #stateFrom({ inputName, outputName, datatype, dims }: StateTensor, outputs: readonly Tensor[]): Tensor {
    const output = outputs.find(({ name }) => name === outputName);
    const shape = this.#batched ? [1, ...dims] : dims;
    if (
      !output ||
      output.shape.length !== shape.length ||
      !output.shape.every((d, i) => shape[i] === -1 || shape[i] === d)
    ) {
      const given = output ? `the shape ${shownShape(output.shape)}` : 'nothing';
      const text = `state '${outputName}' of model '${this.#model}': expected the shape ${shownShape(shape)}, the model gave ${given}`;
      throw new InferError('INTERNAL', text);
    }
    const { data } = output;
    // A view would keep the rows of all others of its run in memory.
    const own = data.byteLength === data.buffer.byteLength ? data : data.slice();
    return { name: inputName, datatype, shape: output.shape, data: own };
  }
}
