import fc from 'fast-check';
import { byteSizeOf, type Datatype } from '../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { byteElements, f32, i32, i64 } from '../../support/onnx/data.ts';

/** Tensors [rows, columns] with any bits, at any place of a larger buffer. */
export function tensorOf(datatype: Datatype, anyBytes: boolean): fc.Arbitrary<Tensor> {
  const dims = fc.tuple(fc.nat({ max: 4 }), fc.nat({ max: 6 }));
  return dims.chain(([rows, columns]) =>
    fc.tuple(dataOf(datatype, rows * columns, anyBytes), fc.nat({ max: 9 })).map(([data, offset]): Tensor => {
      const memory = new Uint8Array(data.byteLength + offset);
      memory.set(data, offset);
      return { name: 'x', datatype, shape: [rows, columns], data: memory.subarray(offset) };
    }),
  );
}

function dataOf(datatype: Datatype, count: number, anyBytes: boolean): fc.Arbitrary<Uint8Array> {
  const exactly = { minLength: count, maxLength: count };
  if (datatype === 'BYTES') {
    const element: fc.Arbitrary<string | Uint8Array> = anyBytes
      ? fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.string({ unit: 'grapheme' }))
      : fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\0', ' '));
    return fc.array(element, exactly).map((elements) => byteElements(...elements));
  }
  if (datatype === 'BOOL') return fc.array(fc.boolean(), exactly).map((values) => Uint8Array.from(values, Number));
  const byteLength = count * byteSizeOf(datatype);
  return fc.uint8Array({ minLength: byteLength, maxLength: byteLength });
}

export function simpleInputs(a: number, b: number): Tensor[] {
  const sixteen = (value: number) => i32(...Array.from({ length: 16 }, () => value));
  return [
    { name: 'INPUT0', datatype: 'INT32', shape: [1, 16], data: sixteen(a) },
    { name: 'INPUT1', datatype: 'INT32', shape: [1, 16], data: sixteen(b) },
  ];
}

export function fp32(name: string, shape: readonly number[], ...values: readonly number[]): Tensor {
  return { name, datatype: 'FP32', shape, data: f32(...values) };
}

export function int64(name: string, shape: readonly number[], ...values: readonly number[]): Tensor {
  return { name, datatype: 'INT64', shape, data: i64(...values) };
}
