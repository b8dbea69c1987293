import fc from 'fast-check';
import { expect, test } from 'vitest';
import { byteSizeOf, DATATYPES, type Datatype } from '../../../../shared/tensor/datatype.ts';
import { encodeBytes } from '../../../../shared/tensor/bytes.ts';
import { decodeJsonData } from '../../../../shared/tensor/json-decode.ts';
import { encodeJsonData } from '../../../../shared/tensor/json-encode.ts';
import { parseBareFloatJson, parseExactJson } from '../../../../shared/tensor/exact-json.ts';

function decode(datatype: Datatype, count: number, text: string): Uint8Array {
  return decodeJsonData('input x', datatype, count, JSON.parse(text), () => parseExactJson(text));
}

function encode(datatype: Datatype, shape: number[], data: Uint8Array): string {
  return encodeJsonData('output y', { name: 'y', datatype, shape, data });
}

const NUMBERS = DATATYPES.filter((datatype) => !['BYTES', 'BOOL', 'FP16', 'BF16'].includes(datatype));

test.each(NUMBERS)('any %s bytes survive as JSON, wherever they lie in memory', (datatype) => {
  const size = byteSizeOf(datatype);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.nat(7), (bytes, offset) => {
      const count = Math.floor(bytes.length / size);
      const home = new Uint8Array(offset + count * size);
      home.set(bytes.subarray(0, count * size), offset);
      const data = home.subarray(offset);
      const text = encode(datatype, [count], data);
      const again = decode(datatype, count, text);
      // NaN has many bit patterns and one name; so compare what is printed.
      expect(encode(datatype, [count], again)).toBe(text);
      if (!text.includes('NaN')) expect(again).toEqual(new Uint8Array(data));
    }),
  );
});

test.each(['FP32', 'FP64'] as const)('any %s bytes survive with bare words too', (datatype) => {
  const size = byteSizeOf(datatype);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      const count = Math.floor(bytes.length / size);
      const data = bytes.slice(0, count * size);
      const text = encodeJsonData('output y', { name: 'y', datatype, shape: [count], data }, true);
      const values = parseBareFloatJson(text, false);
      const again = decodeJsonData('input x', datatype, count, values, () => values, true);
      expect(encodeJsonData('output y', { name: 'y', datatype, shape: [count], data: again }, true)).toBe(text);
      if (!text.includes('NaN')) expect(again).toEqual(data);
    }),
  );
});

test.each(['FP16', 'BF16'] as const)('%s has no JSON form', (datatype) => {
  expect(() => encode(datatype, [1], new Uint8Array(2))).toThrow(`${datatype} cannot travel as JSON; ask for it with`);
  expect(() => decode(datatype, 1, '[1]')).toThrow(`input x: ${datatype} cannot travel as JSON, send it with`);
});

test('infinity is only what a client means by it, not what became of a number', () => {
  expect(() => decode('FP64', 1, '[1e400]')).toThrow('element 0: expected a number in the range of FP64');
  expect(() => decodeJsonData('x', 'FP32', 1, [1e39], () => [], true)).toThrow('in the range of FP32');
  expect(() => decodeJsonData('x', 'INT32', 1, [NaN], () => [], true)).toThrow('expected an integer');
});

test('any texts survive as BYTES', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), (texts) => {
      const data = decode('BYTES', texts.length, JSON.stringify(texts));
      expect(JSON.parse(encode('BYTES', [texts.length], data))).toEqual(texts);
      expect(data).toEqual(encodeBytes(texts.map((text) => Buffer.from(text))));
    }),
  );
});

test('nested arrays mean the same as flat ones, whatever their form', () => {
  const flat = decode('INT16', 6, '[1,2,3,4,5,6]');
  for (const text of ['[[1,2,3],[4,5,6]]', '[[[1],[2]],[3,4,5],6]', '[[],[1,2,3,4,5,6]]']) {
    expect(decode('INT16', 6, text)).toEqual(flat);
  }
});

test('asks for exact data only when an integer may have lost digits', () => {
  let asked = 0;
  const exact = () => {
    asked++;
    return [1n, 2n ** 53n + 1n];
  };
  decodeJsonData('x', 'INT64', 2, [1, 2 ** 53 - 1], exact);
  expect(asked).toBe(0);
  const data = decodeJsonData('x', 'INT64', 2, [1, 2 ** 53], exact);
  expect(asked).toBe(1);
  expect(new BigInt64Array(data.buffer)[1]).toBe(2n ** 53n + 1n);
});

test('compares the count before it allocates', () => {
  expect(() => decode('FP64', 2 ** 40, '[1]')).toThrow('1099511627776 elements expected, 1 given');
});

test('says which values are too many for JSON', () => {
  expect(() => encode('UINT8', [2 ** 26 + 1], new Uint8Array(2 ** 26 + 1))).toThrow(
    'ask for it with binary_data: true',
  );
});
