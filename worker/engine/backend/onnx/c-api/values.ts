import { byteSizeOf } from '../../../../../shared/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../../../../shared/tensor/tensor.ts';
import type { Api } from './api.ts';
import type { BoundInput, BoundOutput } from './bound-graph.ts';
import type { Memory, Pointer } from './functions.ts';
import { assertOk } from './status.ts';
import { createStringValue, readStringValue } from './string-values.ts';

/** More than any model has; tensors were checked against a smaller bound before. */
const MAX_RANK = 256;

/**
 * Makes and reads ONNX Runtime's values. Holds the scratch memory for shapes and results of calls, so it must not be
 * shared between threads; every call here ends before the next begins.
 */
export class Values {
  readonly #api: Api;
  readonly #shape = new BigInt64Array(MAX_RANK);
  readonly #shapeWords = new Uint32Array(this.#shape.buffer);
  readonly #out = new BigUint64Array(1);

  constructor(api: Api) {
    this.#api = api;
  }

  /**
   * An input as a value, written to `out`. Numbers stay where they are when they are aligned: the value points into the
   * tensor's data, or into the copy that is returned, which must be kept until the value is released.
   * @throws OrtCallError
   */
  createInput(tensor: Tensor, input: BoundInput, out: BigUint64Array): Uint8Array | undefined {
    const { shape, datatype } = tensor;
    if (datatype === 'BYTES') {
      createStringValue(this.#api, this.#writeShape(shape), shape.length, tensor.data, out);
      return undefined;
    }
    const data = aligned(tensor.data, byteSizeOf(datatype));
    this.#createValue(data, shape, input.onnxType, out);
    return data;
  }

  /**
   * A value over fresh memory for an output whose shape is known, written to `out`; the memory is the result.
   * @throws OrtCallError
   */
  createOutput(output: BoundOutput, shape: readonly number[], byteLength: number, out: Memory): Buffer {
    const data = Buffer.allocUnsafe(byteLength);
    this.#createValue(data, shape, output.onnxType, out);
    return data;
  }

  /** A copy of an output that the library made. @throws OrtCallError */
  readOutput(output: BoundOutput, value: Pointer): Tensor {
    const { name, datatype } = output.tensor;
    if (datatype === undefined || value === 0n) throw new Error(`output ${name} was not made by the model`);
    const shape = this.#readShape(value);
    const count = elementCount(shape);
    if (datatype === 'BYTES') return { name, datatype, shape, data: readStringValue(this.#api, value, count) };
    const byteLength = count * byteSizeOf(datatype);
    const data = Buffer.allocUnsafe(byteLength);
    if (byteLength > 0) {
      assertOk(this.#api.ort, this.#api.ort.GetTensorMutableData(value, this.#out));
      this.#api.copy(data, this.#out[0] ?? 0n, byteLength);
    }
    return { name, datatype, shape, data };
  }

  #createValue(data: Uint8Array, shape: readonly number[], onnxType: number, out: Memory): void {
    const { ort, cpuMemory } = this.#api;
    // Memory of no bytes may have no address, which the library refuses.
    const memory = data.byteLength > 0 ? data : NO_BYTES;
    const dims = this.#writeShape(shape);
    assertOk(
      ort,
      ort.CreateTensorWithDataAsOrtValue(cpuMemory, memory, data.byteLength, dims, shape.length, onnxType, out),
    );
  }

  /** As two words a dimension, which spares a bigint for each. */
  #writeShape(shape: readonly number[]): BigInt64Array {
    for (let axis = 0; axis < shape.length; axis++) {
      const dim = shape[axis] ?? 0;
      this.#shapeWords[2 * axis] = dim >>> 0;
      this.#shapeWords[2 * axis + 1] = dim / 2 ** 32;
    }
    return this.#shape;
  }

  #readShape(value: Pointer): number[] {
    const { ort } = this.#api;
    assertOk(ort, ort.GetTensorTypeAndShape(value, this.#out));
    const info = this.#out[0] ?? 0n;
    try {
      assertOk(ort, ort.GetDimensionsCount(info, this.#out));
      const rank = Number(this.#out[0]);
      if (rank > MAX_RANK) throw new Error(`a tensor of ${rank} dimensions`);
      assertOk(ort, ort.GetDimensions(info, this.#shape, rank));
      return Array.from(this.#shape.subarray(0, rank), Number);
    } finally {
      ort.ReleaseTensorTypeAndShapeInfo(info);
    }
  }
}

const NO_BYTES = new Uint8Array(8);

/** The data itself when its elements lie where the machine wants them, else a copy. ArrayBuffers begin aligned. */
function aligned(data: Uint8Array, elementSize: number): Uint8Array {
  return data.byteOffset % elementSize === 0 ? data : Buffer.from(data);
}
