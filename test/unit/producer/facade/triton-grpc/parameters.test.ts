import { describe, expect, it } from 'vitest';
import { decodeRequestParameters } from '../../../../../producer/facade/triton-grpc/parameters.ts';
import type { ParameterChoice } from '../../../../../producer/facade/triton-grpc/request-message.ts';

function sequenceIdOf(choice: ParameterChoice): unknown {
  return decodeRequestParameters(new Map([['sequence_id', choice]])).parameters.sequence_id;
}

describe('sequence_id over gRPC', () => {
  it.each([
    [5n, 5],
    [2n ** 53n + 1n, 2n ** 53n + 1n],
    [2n ** 63n - 1n, 2n ** 63n - 1n],
    [-1n, 2n ** 64n - 1n],
    [-(2n ** 63n), 2n ** 63n],
  ])('is the unsigned number that the 64 bits of %s stand for', (value, id) => {
    expect(sequenceIdOf({ case: 'int64Param', value })).toBe(id);
  });

  it('may be a text', () => {
    expect(sequenceIdOf({ case: 'stringParam', value: 'a' })).toBe('a');
  });

  it.each<ParameterChoice>([
    { case: 'uint64Param', value: 1n },
    { case: 'boolParam', value: true },
    { case: 'doubleParam', value: 1 },
  ])('must not be %o', (choice) => {
    expect(() => sequenceIdOf(choice)).toThrow(/sequence_id must be int64_param or string_param/);
  });
});
