import { InferError } from '../../../shared/errors.ts';
import { type SequencePart, shownId } from '../../../shared/infer/sequence.ts';
import { CONTROL_DIMS, type ControlTensor } from '../../../shared/model/sequence-tensors.ts';
import { encodeTexts } from '../../../shared/tensor/bytes.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';

/** What the controls of one row say. */
export interface RowControls {
  readonly start: boolean;
  readonly ready: boolean;
  readonly end: boolean;
  /** 0 where no request stands behind the row. */
  readonly id: bigint | string;
}

/** A row that stands for a slot without a request. */
export const NOT_READY: RowControls = { start: false, ready: false, end: false, id: 0n };

/** Largest id of each integer type; as in Triton an id is a number from 0 up. */
const MAX_IDS: Readonly<Record<string, bigint>> = {
  UINT64: 2n ** 64n - 1n,
  INT64: 2n ** 63n - 1n,
  UINT32: 2n ** 32n - 1n,
  INT32: 2n ** 31n - 1n,
};

/** Makes the control tensors of rows. The two forms of each switch are made once. */
export class ControlTensors {
  readonly #controls: readonly ControlTensor[];
  readonly #shape: readonly number[];
  /** By control: false and true. Empty for the correlation id. */
  readonly #switches: readonly (readonly Tensor[])[];

  constructor(controls: readonly ControlTensor[], batched: boolean) {
    this.#controls = controls;
    this.#shape = batched ? [1, ...CONTROL_DIMS] : CONTROL_DIMS;
    this.#switches = controls.map((control) =>
      control.kind === 'corrid' ? [] : control.falseTrue.map((value) => this.#tensor(control, encode(control, value))),
    );
  }

  /** Whether the model can be told that a row stands for nothing. */
  get canPad(): boolean {
    return this.#controls.some(({ kind }) => kind === 'ready');
  }

  /** @throws InferError INVALID_ARGUMENT for an id that the model's control of it cannot hold. */
  assertHolds(model: string, { id }: Pick<SequencePart, 'id'>): void {
    for (const { kind, datatype, name } of this.#controls) {
      if (kind !== 'corrid' || datatype === 'BYTES') continue;
      const max = MAX_IDS[datatype] ?? 0n;
      if (typeof id === 'bigint' && id <= max) continue;
      const expected = `a number up to ${max.toString()}, as its input ${name} is ${datatype}`;
      const text = `model '${model}' takes as sequence_id ${expected}, got ${typeof id === 'string' ? 'the text ' : ''}${shownId(id)}`;
      throw new InferError('INVALID_ARGUMENT', text);
    }
  }

  /** In the order of the config. */
  of(row: RowControls): Tensor[] {
    return this.#controls.map((control, index) => {
      if (control.kind === 'corrid') return this.#tensor(control, encodeId(control, row.id));
      const tensor = this.#switches[index]?.[row[control.kind] ? 1 : 0];
      return tensor ?? this.#tensor(control, encode(control, control.falseTrue[row[control.kind] ? 1 : 0]));
    });
  }

  #tensor({ name, datatype }: ControlTensor, data: Uint8Array): Tensor {
    return { name, datatype, shape: this.#shape, data };
  }
}

function encode({ datatype }: ControlTensor, value: number): Uint8Array {
  if (datatype === 'FP32') return bytesOf(Float32Array.of(value));
  return datatype === 'BOOL' ? Uint8Array.of(value === 0 ? 0 : 1) : bytesOf(Int32Array.of(value));
}

/** A model that takes texts gets a number in decimal, as from Triton. */
function encodeId({ datatype }: ControlTensor, id: bigint | string): Uint8Array {
  if (datatype === 'BYTES') return encodeTexts([id === 0n ? '' : id.toString()]);
  const number = typeof id === 'bigint' ? id : 0n; // a text was refused before
  if (datatype === 'UINT64' || datatype === 'INT64') return bytesOf(BigUint64Array.of(number));
  return bytesOf(Uint32Array.of(Number(number)));
}

function bytesOf({ buffer }: { readonly buffer: ArrayBuffer }): Uint8Array {
  return new Uint8Array(buffer);
}
