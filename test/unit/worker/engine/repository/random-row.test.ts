import { describe, expect, it } from 'vitest';
import { byteSizeOf, type Datatype } from '../../../../../shared/tensor/datatype.ts';
import { bfloat16Value, float16Value } from '../../../../../shared/tensor/float16.ts';
import { randomRow } from '../../../../../worker/engine/repository/random-row.ts';

const ELEMENTS = 4000;

function rowOf(datatype: Datatype): DataView {
  const data = randomRow(datatype, ELEMENTS);
  expect(data.byteLength).toBe(ELEMENTS * byteSizeOf(datatype));
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}

const READERS: Partial<Record<Datatype, (row: DataView, index: number) => number>> = {
  FP64: (row, i) => row.getFloat64(i * 8, true),
  FP32: (row, i) => row.getFloat32(i * 4, true),
  FP16: (row, i) => float16Value(row.getUint16(i * 2, true)),
  BF16: (row, i) => bfloat16Value(row.getUint16(i * 2, true)),
  INT64: (row, i) => Number(row.getBigInt64(i * 8, true)),
  INT32: (row, i) => row.getInt32(i * 4, true),
  INT8: (row, i) => row.getInt8(i),
  UINT16: (row, i) => row.getUint16(i * 2, true),
  BOOL: (row, i) => row.getUint8(i),
};

describe('randomRow', () => {
  it.each([
    ['FP64', 127 / 128],
    ['FP32', 127 / 128],
    ['FP16', 127 / 128],
    ['BF16', 127 / 128],
    ['INT64', 127],
    ['INT32', 127],
    ['INT8', 127],
    ['UINT16', 127],
    ['BOOL', 1],
  ] as const)('fills %s with numbers from 0 to %d', (datatype, most) => {
    const row = rowOf(datatype);
    const values = Array.from({ length: ELEMENTS }, (_, i) => READERS[datatype]!(row, i));
    expect(Math.min(...values)).toBe(0);
    expect(Math.max(...values)).toBe(most);
    expect(new Set(values).size).toBeGreaterThan(datatype === 'BOOL' ? 1 : 100);
  });
});
