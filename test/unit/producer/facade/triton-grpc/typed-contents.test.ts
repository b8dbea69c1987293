import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { describe, expect, test } from 'vitest';
import { decodeTypedContents } from '../../../../../producer/facade/triton-grpc/typed-contents.ts';
import { InferTensorContentsSchema } from '../../../../../shared/proto/generated/grpc_service_pb.ts';
import type { Datatype } from '../../../../../shared/tensor/datatype.ts';

function decode(datatype: Datatype, count: number, contents: Uint8Array, maxBytes = 1000): Buffer {
  return Buffer.from(decodeTypedContents('input x', datatype, count, contents, maxBytes));
}

type Contents = MessageInitShape<typeof InferTensorContentsSchema>;

function contents(init: Contents): Uint8Array {
  return toBinary(InferTensorContentsSchema, create(InferTensorContentsSchema, init));
}

test('lists may be written element by element, in several pieces, or both', () => {
  const integers = new BinaryWriter();
  integers.tag(2, WireType.Varint).int32(-1);
  integers.tag(2, WireType.LengthDelimited).fork().int32(2).int32(300).join();
  integers.tag(2, WireType.Varint).int32(-(2 ** 31));
  expect(decode('INT32', 4, integers.finish())).toEqual(Buffer.from(Int32Array.of(-1, 2, 300, -(2 ** 31)).buffer));

  const floats = new BinaryWriter();
  floats.tag(6, WireType.Bit32).float(0.5);
  floats.tag(6, WireType.LengthDelimited).fork().float(1).float(-1.5).join();
  expect(decode('FP32', 3, floats.finish())).toEqual(Buffer.from(Float32Array.of(0.5, 1, -1.5).buffer));

  const doubles = new BinaryWriter();
  doubles.tag(7, WireType.Bit64).double(0.1).tag(7, WireType.Bit64).double(NaN);
  expect(decode('FP64', 2, doubles.finish())).toEqual(Buffer.from(Float64Array.of(0.1, NaN).buffer));
});

test('floats that lie in one piece are a view of the message', () => {
  const lists: [Datatype, Contents][] = [
    ['FP32', { fp32Contents: [1, 2] }],
    ['FP64', { fp64Contents: [1, 2] }],
  ];
  for (const [datatype, init] of lists) {
    const bytes = contents(init);
    expect(decodeTypedContents('input x', datatype, 2, bytes, 1000).buffer).toBe(bytes.buffer);
  }
});

test('an empty list of another kind is no mistake', () => {
  const writer = new BinaryWriter().tag(3, WireType.LengthDelimited).uint32(0);
  writer.raw(contents({ intContents: [5] }));
  expect(decode('INT8', 1, writer.finish())).toEqual(Buffer.of(5));
});

test('any number but 0 is true', () => {
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).fork();
  writer
    .uint32(0)
    .uint32(2)
    .uint64(2n ** 63n)
    .join();
  expect(decode('BOOL', 3, writer.finish())).toEqual(Buffer.of(0, 1, 1));
});

describe('refuses', () => {
  test.each<[Datatype, Contents, string]>([
    ['INT8', { intContents: [127, 128] }, 'element 1: expected an integer from -128 to 127, got 128'],
    ['INT16', { intContents: [-32769, 0] }, 'element 0: expected an integer from -32768 to 32767, got -32769'],
    ['UINT16', { uintContents: [0, 65536] }, 'element 1: expected an integer from 0 to 65535, got 65536'],
    ['UINT32', { intContents: [1, 2] }, 'UINT32 belongs into uint_contents, and int_contents is given'],
    ['BYTES', { bytesContents: [Buffer.from('a')] }, '2 elements expected, 1 given'],
    ['INT64', { int64Contents: [1n, 2n, 3n] }, '2 elements expected, 3 given'],
    ['BF16', { fp32Contents: [1, 2] }, 'BF16 has no typed contents'],
  ])('%s: %o', (datatype, init, message) => {
    expect(() => decode(datatype, 2, contents(init))).toThrow(`input x: ${message}`);
  });

  test('elements that would take more memory than a request may have', () => {
    expect(() => decode('INT64', 200, contents({ int64Contents: Array<bigint>(200).fill(1n) }))).toThrow(
      'input x: 1600 bytes of elements are more than the limit of 1000',
    );
  });

  test.each([
    ['FP32', new BinaryWriter().tag(6, WireType.LengthDelimited).bytes(Buffer.alloc(7))],
    ['FP32', new BinaryWriter().tag(6, WireType.Varint).uint32(1)],
    ['BYTES', new BinaryWriter().tag(8, WireType.Varint).uint32(1)],
    ['INT32', new BinaryWriter().tag(2, WireType.LengthDelimited).bytes(Buffer.of(1, 0x80))],
    ['INT64', new BinaryWriter().tag(3, WireType.LengthDelimited).bytes(Buffer.alloc(20, 0xff))],
    ['BOOL', new BinaryWriter().tag(1, WireType.LengthDelimited).uint32(1000)],
    [
      'INT32',
      new BinaryWriter().tag(2, WireType.LengthDelimited).bytes(Buffer.from('ffffffffffffffffffffff01', 'hex')),
    ],
  ] as const)('%s that is broken', (datatype, writer) => {
    expect(() => decode(datatype, 1, writer.finish())).toThrow(
      /^input x: (contents are no InferTensorContents|1 elements)/,
    );
  });
});
