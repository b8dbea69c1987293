import { bfloat16Value, float16Value } from '../../../shared/tensor/float16.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';

/** How far two answers are apart: the largest difference of two numbers relative to `scaleOf`, Infinity where they cannot be compared. */
export function differenceOf(a: readonly Tensor[], b: readonly Tensor[]): number {
  if (a.length !== b.length) return Infinity;
  let largest = 0;
  for (const tensor of a) {
    const other = b.find(({ name }) => name === tensor.name);
    if (!other || !sameForm(tensor, other)) return Infinity;
    largest = Math.max(largest, differenceOfData(tensor, other));
  }
  return largest;
}

function sameForm(a: Tensor, b: Tensor): boolean {
  return (
    a.datatype === b.datatype && a.shape.length === b.shape.length && a.shape.every((dim, i) => dim === b.shape[i])
  );
}

function differenceOfData(a: Tensor, b: Tensor): number {
  if (Buffer.compare(a.data, b.data) === 0) return 0;
  const numbers = numbersOf(a);
  const others = numbersOf(b);
  if (!numbers || !others || numbers.length !== others.length) return Infinity; // only floats may differ a little
  let largest = 0;
  for (let i = 0; i < numbers.length; i += 1) {
    largest = Math.max(largest, differenceOfNumbers(numbers[i] ?? 0, others[i] ?? 0));
  }
  return largest;
}

function differenceOfNumbers(a: number, b: number): number {
  if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return 0;
  const difference = Math.abs(a - b) / Math.max(1, Math.abs(a), Math.abs(b));
  return Number.isFinite(difference) ? difference : Infinity;
}

function numbersOf({ datatype, data }: Tensor): Float32Array | Float64Array | undefined {
  switch (datatype) {
    case 'FP32':
      return new Float32Array(copyOf(data));
    case 'FP64':
      return new Float64Array(copyOf(data));
    case 'FP16':
      return Float32Array.from(new Uint16Array(copyOf(data)), float16Value);
    case 'BF16':
      return Float32Array.from(new Uint16Array(copyOf(data)), bfloat16Value);
    default:
      return undefined;
  }
}

/** Views need aligned memory. */
function copyOf(data: Uint8Array): ArrayBuffer {
  return new Uint8Array(data).buffer;
}
