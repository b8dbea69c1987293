import { InferError } from '../../shared/errors.ts';
import type { InferResponse } from '../../shared/infer/response.ts';
import { bfloat16Value, float16Value } from '../../shared/tensor/float16.ts';
import { elementCount, type Tensor } from '../../shared/tensor/tensor.ts';

/** Numbers of an output, row-major. */
export interface Floats {
  readonly values: Float32Array | Float64Array;
  readonly shape: readonly number[];
}

/** The numbers of an output by name, whatever float type it has. */
export function floatsOf(response: InferResponse, output: string): Floats {
  const tensor = response.outputs.find(({ name }) => name === output);
  if (!tensor) throw new InferError('INTERNAL', `the model gave no output "${output}"`);
  return { values: numbersOf(tensor), shape: tensor.shape };
}

function numbersOf({ datatype, data, shape, name }: Tensor): Float32Array | Float64Array {
  const count = elementCount(shape);
  switch (datatype) {
    case 'FP32':
      return aligned(data, 4) ? new Float32Array(data.buffer, data.byteOffset, count) : new Float32Array(copyOf(data));
    case 'FP64':
      return aligned(data, 8) ? new Float64Array(data.buffer, data.byteOffset, count) : new Float64Array(copyOf(data));
    case 'FP16':
      return Float32Array.from(new Uint16Array(copyOf(data)), float16Value);
    case 'BF16':
      return Float32Array.from(new Uint16Array(copyOf(data)), bfloat16Value);
    default:
      throw new InferError('INVALID_ARGUMENT', `output "${name}" is ${datatype}; an answer is read from floats`);
  }
}

function aligned({ byteOffset }: Uint8Array, byteSize: number): boolean {
  return byteOffset % byteSize === 0;
}

function copyOf(data: Uint8Array): ArrayBuffer {
  return new Uint8Array(data).buffer;
}
