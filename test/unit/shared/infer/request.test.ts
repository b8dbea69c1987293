import { expect, test } from 'vitest';
import { rowsOf } from '../../../../shared/infer/request.ts';

test('the rows of a request are its batch dimension, or 1 without one', () => {
  const x = { name: 'x', datatype: 'UINT8', shape: [2, 3], data: new Uint8Array(6) } as const;
  expect(rowsOf(true, [x])).toBe(2);
  expect(rowsOf(false, [x])).toBe(1);
});
