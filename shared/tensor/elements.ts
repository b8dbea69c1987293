import { bfloat16Value, float16Value } from './float16.ts';
import type { Tensor } from './tensor.ts';

export type Floats = Float32Array | Float64Array;
export type Integers = Uint8Array | Uint16Array | Uint32Array | Int8Array | Int16Array | Int32Array;
export type Longs = BigInt64Array | BigUint64Array;

/** A tensor's elements by what JavaScript can do with them. Views of its data where alignment allows. */
export type Elements =
  | { readonly kind: 'floats'; readonly values: Floats }
  | { readonly kind: 'integers'; readonly values: Integers }
  | { readonly kind: 'longs'; readonly values: Longs }
  | { readonly kind: 'booleans'; readonly values: Uint8Array }
  | { readonly kind: 'bytes' };

export function elementsOf(tensor: Tensor): Elements {
  switch (tensor.datatype) {
    case 'BOOL':
      return { kind: 'booleans', values: tensor.data };
    case 'UINT8':
      return { kind: 'integers', values: tensor.data };
    case 'INT8':
      return { kind: 'integers', values: view(Int8Array, tensor.data) };
    case 'UINT16':
      return { kind: 'integers', values: view(Uint16Array, tensor.data) };
    case 'INT16':
      return { kind: 'integers', values: view(Int16Array, tensor.data) };
    case 'UINT32':
      return { kind: 'integers', values: view(Uint32Array, tensor.data) };
    case 'INT32':
      return { kind: 'integers', values: view(Int32Array, tensor.data) };
    case 'UINT64':
      return { kind: 'longs', values: view(BigUint64Array, tensor.data) };
    case 'INT64':
      return { kind: 'longs', values: view(BigInt64Array, tensor.data) };
    case 'FP16':
      return { kind: 'floats', values: Float64Array.from(view(Uint16Array, tensor.data), float16Value) };
    case 'BF16':
      return { kind: 'floats', values: Float64Array.from(view(Uint16Array, tensor.data), bfloat16Value) };
    case 'FP32':
      return { kind: 'floats', values: view(Float32Array, tensor.data) };
    case 'FP64':
      return { kind: 'floats', values: view(Float64Array, tensor.data) };
    case 'BYTES':
      return { kind: 'bytes' };
  }
}

interface ViewType<T> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): T;
}

/** The bytes as a typed array: a view, or a copy when they lie askew for the element size. */
function view<T>(type: ViewType<T>, data: Uint8Array): T {
  const size = type.BYTES_PER_ELEMENT;
  const { buffer, byteOffset, byteLength } = data.byteOffset % size === 0 ? data : new Uint8Array(data);
  return new type(buffer, byteOffset, byteLength / size);
}
