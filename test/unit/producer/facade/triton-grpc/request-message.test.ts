import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  parseRequestMessage,
  type RequestMessage,
} from '../../../../../producer/facade/triton-grpc/request-message.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Pieces } from '../../../../../shared/tensor/pieces.ts';
import {
  InferParameterSchema,
  ModelInferRequestSchema,
} from '../../../../../shared/proto/generated/grpc_service_pb.ts';

const SEEDS = [1, 4711];

const text = fc.string({ unit: 'grapheme', maxLength: 10 });
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const choice = fc.oneof(
  fc.boolean().map((value) => ({ case: 'boolParam' as const, value })),
  int64.map((value) => ({ case: 'int64Param' as const, value })),
  text.map((value) => ({ case: 'stringParam' as const, value })),
  fc.double().map((value) => ({ case: 'doubleParam' as const, value })),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((value) => ({ case: 'uint64Param' as const, value })),
);
const parameters = fc.dictionary(
  text,
  choice.map((parameterChoice) => ({ parameterChoice })),
  { maxKeys: 3, noNullPrototype: true },
);
const request = fc.record({
  modelName: text,
  modelVersion: text,
  id: text,
  parameters,
  inputs: fc.array(fc.record({ name: text, datatype: text, shape: fc.array(int64, { maxLength: 5 }), parameters }), {
    maxLength: 3,
  }),
  outputs: fc.array(fc.record({ name: text, parameters }), { maxLength: 3 }),
  rawInputContents: fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 3 }),
});

test('reads what the general reader reads', () => {
  const property = fc.property(request, (init) => {
    const bytes = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init));
    const general = fromBinary(ModelInferRequestSchema, bytes);
    const own = parseRequestMessage(bytes);
    const plain = (map: typeof own.parameters) => Object.fromEntries(map);
    const choices = (map: typeof general.parameters) =>
      Object.fromEntries(Object.entries(map).map(([key, { parameterChoice }]) => [key, parameterChoice]));
    expect({ ...own, parameters: plain(own.parameters) }).toEqual({
      modelName: general.modelName,
      modelVersion: general.modelVersion,
      id: general.id,
      parameters: choices(general.parameters),
      inputs: own.inputs,
      outputs: own.outputs,
      rawContents: general.rawInputContents,
    });
    expect(own.inputs.map((input) => ({ ...input, parameters: plain(input.parameters) }))).toEqual(
      general.inputs.map(({ name, datatype, shape, ...input }) => ({
        name,
        datatype,
        shape: shape.map(Number),
        parameters: choices(input.parameters),
        contents: undefined,
      })),
    );
    expect(own.outputs.map((output) => ({ ...output, parameters: plain(output.parameters) }))).toEqual(
      general.outputs.map(({ name, ...output }) => ({ name, parameters: choices(output.parameters) })),
    );
  });
  for (const seed of SEEDS) fc.assert(property, { seed, numRuns: 100 });
  fc.assert(property, { numRuns: 100 });
});

/** The message in pieces of the given length; `bytes` stays as it is. */
function cut(bytes: Uint8Array, length: number): Pieces {
  const copy = Buffer.from(bytes);
  const count = Math.ceil(copy.length / length);
  const parts = Array.from({ length: count }, (_, i) => copy.subarray(i * length, (i + 1) * length));
  return new Pieces(parts, copy.length);
}

function joined({ rawContents, ...message }: RequestMessage) {
  return { ...message, rawContents: rawContents.map((raw) => Buffer.from(raw instanceof Pieces ? raw.join() : raw)) };
}

/** What is read, or the code of the refusal; its text may name another of two reasons. */
function outcomeOf(bytes: Uint8Array | Pieces) {
  try {
    return joined(parseRequestMessage(bytes));
  } catch (error) {
    return (error as InferError).code;
  }
}

test('reads or refuses the same from pieces', () => {
  const damaged = fc.tuple(request, fc.option(fc.tuple(fc.nat(), fc.nat({ max: 255 })))).map(([init, change]) => {
    const bytes = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init));
    if (change && bytes.length > 0) bytes[change[0] % bytes.length] = change[1];
    return bytes;
  });
  const property = fc.property(damaged, fc.integer({ min: 1, max: 40 }), (bytes, length) => {
    expect(outcomeOf(cut(bytes, length))).toEqual(outcomeOf(bytes));
  });
  for (const seed of SEEDS) fc.assert(property, { seed, numRuns: 500 });
  fc.assert(property, { numRuns: 500 });
});

test('leaves raw contents in pieces, whose number does not make reading slower than it is', () => {
  const raw = Buffer.alloc(10_000, 7);
  const bytes = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, { rawInputContents: [raw] }));
  const pieces = cut(bytes, 100);
  expect(parseRequestMessage(pieces).rawContents[0]).toBeInstanceOf(Pieces);
  expect(pieces.isJoined).toBe(false);
  const writer = new BinaryWriter();
  for (let i = 0; i < 100_000; i += 1) writer.tag(1, WireType.LengthDelimited).string('');
  const many = cut(writer.finish(), 20);
  expect(parseRequestMessage(many)).toMatchObject({ modelName: '' });
  expect(many.isJoined).toBe(true);
});

test('either reads or refuses any bytes, also those that were a request before they were damaged', () => {
  const damaged = fc
    .tuple(request, fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { minLength: 1, maxLength: 4 }), fc.nat())
    .map(([init, changes, cut]) => {
      const bytes = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, init));
      for (const [at, byte] of changes) if (bytes.length > 0) bytes[at % bytes.length] = byte;
      return cut % 3 === 0 ? bytes.subarray(0, cut % (bytes.length + 1)) : bytes;
    });
  const property = fc.property(fc.oneof(damaged, fc.uint8Array({ maxLength: 100 })), (bytes) => {
    try {
      parseRequestMessage(bytes);
    } catch (error) {
      expect(error).toBeInstanceOf(InferError);
      expect(error).toHaveProperty('code', 'INVALID_ARGUMENT');
    }
  });
  for (const seed of SEEDS) fc.assert(property, { seed, numRuns: 500 });
  fc.assert(property, { numRuns: 500 });
});

test('fields that it does not know are passed over', () => {
  const writer = new BinaryWriter();
  writer.tag(99, WireType.LengthDelimited).string('new');
  writer.tag(98, WireType.Varint).uint32(5);
  writer.tag(97, WireType.Bit64).fixed64(5n);
  writer.tag(96, WireType.StartGroup).tag(1, WireType.Varint).uint32(1).tag(96, WireType.EndGroup);
  writer.tag(1, WireType.LengthDelimited).string('m');
  expect(parseRequestMessage(writer.finish())).toMatchObject({ modelName: 'm', inputs: [] });
});

test('a shape may be written without packing', () => {
  const input = new BinaryWriter();
  for (const dimension of [2, 300, -1]) input.tag(3, WireType.Varint).int64(dimension);
  const bytes = new BinaryWriter().tag(5, WireType.LengthDelimited).bytes(input.finish()).finish();
  expect(parseRequestMessage(bytes).inputs[0]?.shape).toEqual([2, 300, -1]);
});

describe('few bytes that would become many objects are refused', () => {
  test.each([
    ['inputs', 5],
    ['outputs', 6],
    ['raw_input_contents', 7],
  ])('%s', (what, field) => {
    const writer = new BinaryWriter();
    for (let i = 0; i < 100_000; i++) writer.tag(field, WireType.LengthDelimited).uint32(0);
    expect(() => parseRequestMessage(writer.finish())).toThrow(`${what} has more than 1024 entries`);
  });

  test('parameters', () => {
    const value = toBinary(InferParameterSchema, create(InferParameterSchema));
    const writer = new BinaryWriter();
    for (let i = 0; i < 1000; i++) {
      const entry = new BinaryWriter().tag(1, WireType.LengthDelimited).string(String(i));
      entry.tag(2, WireType.LengthDelimited).bytes(value);
      writer.tag(4, WireType.LengthDelimited).bytes(entry.finish());
    }
    expect(() => parseRequestMessage(writer.finish())).toThrow('more than 256 parameters');
  });

  test('groups within groups', () => {
    const bytes = Buffer.alloc(1_000_000, new BinaryWriter().tag(9, WireType.StartGroup).finish());
    expect(() => parseRequestMessage(bytes)).toThrow('the message is no ModelInferRequest');
  });
});
