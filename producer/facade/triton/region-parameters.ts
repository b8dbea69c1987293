import { InferError } from '../../../shared/errors.ts';
import { shownValue } from '../../../shared/tensor/text.ts';
import type { RegionRange } from '../../service/shared-memory.ts';

/** The parameters of a tensor that say where in shared memory it is; values as the protocol gives them. */
export interface RegionParameters {
  readonly shared_memory_region?: unknown;
  readonly shared_memory_byte_size?: unknown;
  readonly shared_memory_offset?: unknown;
}

/**
 * Where in shared memory a tensor lies or goes to; undefined when its parameters do not speak of shared memory.
 * @param where the tensor, for messages: "input x"
 * @throws InferError INVALID_ARGUMENT for a part that is missing or wrong. Whether the region exists is not looked at.
 */
export function readRegionRange(where: string, parameters: RegionParameters): RegionRange | undefined {
  const { shared_memory_region: region, shared_memory_byte_size: size, shared_memory_offset: offset } = parameters;
  if (region === undefined) {
    const other = size !== undefined ? 'shared_memory_byte_size' : 'shared_memory_offset';
    if (size === undefined && offset === undefined) return undefined;
    throw invalid(`${where}: ${other} is given without shared_memory_region`);
  }
  if (typeof region !== 'string' || region === '') {
    throw invalid(`${where}: shared_memory_region must be the name of a region, got ${shownValue(region)}`);
  }
  if (size === undefined) throw invalid(`${where}: shared_memory_region is given without shared_memory_byte_size`);
  return {
    region,
    offset: offset === undefined ? 0 : asByteCount(`${where}: shared_memory_offset`, offset),
    byteLength: asByteCount(`${where}: shared_memory_byte_size`, size),
  };
}

/** A number of bytes from 0 up, as a number or a bigint. @throws InferError INVALID_ARGUMENT for anything else. */
export function asByteCount(what: string, value: unknown): number {
  const count = typeof value === 'bigint' ? Number(value) : value;
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count;
  throw invalid(`${what} must be a whole number of bytes from 0 up, got ${shownValue(value)}`);
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
