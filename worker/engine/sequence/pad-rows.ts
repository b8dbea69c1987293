import { elementCount, type Tensor } from '../../../shared/tensor/tensor.ts';
import { type ControlTensors, NOT_READY } from './control-tensors.ts';
import { zeros } from './initial-states.ts';

/**
 * The inputs of a row that stands for a place without a request: zeros in the shapes of the other rows, and controls that
 * say so. Kept for the next run of the same group.
 */
export class PadRows {
  readonly #controls: ControlTensors;
  #groupKey: string | undefined;
  #inputs: readonly Tensor[] = [];

  constructor(controls: ControlTensors) {
    this.#controls = controls;
  }

  /** `client` and `states` are those of a row of the group. */
  of(groupKey: string, client: readonly Tensor[], states: readonly Tensor[]): readonly Tensor[] {
    if (this.#groupKey !== groupKey) {
      this.#groupKey = groupKey;
      this.#inputs = [...client.map(emptied), ...this.#controls.of(NOT_READY), ...states.map(emptied)];
    }
    return this.#inputs;
  }
}

function emptied({ name, datatype, shape }: Tensor): Tensor {
  return { name, datatype, shape, data: zeros(datatype, elementCount(shape)) };
}
