import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { InferError } from '../../shared/errors.ts';
import { shownText } from '../../shared/tensor/text.ts';
import type { Admission } from './admission.ts';
import { openRegionFile } from './region-file.ts';

const MAX_NAME_LENGTH = 1024;
/** Each one holds a file descriptor. perf_analyzer needs one per tensor. */
const MAX_REGIONS = 1024;
/** The most that is read or written with one call, whose length Node keeps in 32 bits with a sign. */
const MAX_IO_BYTES = 2 ** 30;
/** Triton's Python backend calls its own regions so. */
const RESERVED_PREFIX = 'triton_python_backend_shm_region_';

/** A part of a registered region, as a request names it. Bytes. */
export interface RegionRange {
  readonly region: string;
  readonly offset: number;
  readonly byteLength: number;
}

/** A region as a client registered it. */
export interface RegionStatus {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly byteLength: number;
}

/** Parts of regions that stay usable until `release`, also when their regions are unregistered meanwhile. */
export interface RegionHold {
  /**
   * Writes `data` to the beginning of a held range.
   * @throws InferError INVALID_ARGUMENT when it does not fit.
   */
  write(where: string, range: RegionRange, data: Uint8Array): void;
  /** Must be called once. */
  release(): void;
}

export interface SharedMemoryOptions {
  /** Whether clients may register regions. */
  readonly enabled: boolean;
  /** Has to have room for what is read. */
  readonly admission: Admission;
  readonly platform?: NodeJS.Platform;
}

interface Region extends RegionStatus {
  readonly fd: number;
  /** Requests that are going to write to it. */
  holders: number;
  registered: boolean;
}

/**
 * System shared memory that clients on this machine register, so that tensors do not travel over a connection.
 *
 * Regions are read and written as files, never mapped: a file that a client shrinks is then a short read rather than a
 * SIGBUS that ends the process, and what was validated cannot change afterwards. The price is one copy, made here and
 * now: 1 MB takes 0.4 ms, 64 MB take 100 ms. That is less than the event loop spends on the same bytes when they come
 * through a socket, and as a task for libuv's pool it would take no less and wait behind running models.
 */
export class SharedMemory {
  readonly enabled: boolean;
  readonly #admission: Admission;
  readonly #platform: NodeJS.Platform;
  readonly #regions = new Map<string, Region>();

  constructor({ enabled, admission, platform = process.platform }: SharedMemoryOptions) {
    this.enabled = enabled;
    this.#admission = admission;
    this.#platform = platform;
  }

  /**
   * Opens the shared memory object `key`; the region is `byteLength` bytes of it from `offset` on.
   * @throws InferError INVALID_ARGUMENT, ALREADY_EXISTS, RESOURCE_EXHAUSTED, or UNIMPLEMENTED where it is not possible.
   */
  register(name: string, key: string, offset: number, byteLength: number): void {
    this.assertEnabled();
    if (this.#platform !== 'linux') {
      throw new InferError(
        'UNIMPLEMENTED',
        `shared memory needs a server on Linux, this one runs on ${this.#platform}`,
      );
    }
    const where = `shared memory region ${shownText(name)}`;
    assertName(where, name);
    if (this.#regions.has(name)) throw new InferError('ALREADY_EXISTS', `${where} is registered already`);
    if (this.#regions.size >= MAX_REGIONS) {
      throw new InferError('RESOURCE_EXHAUSTED', `${where}: ${MAX_REGIONS} regions are registered, which is the limit`);
    }
    if (byteLength < 1) throw invalid(`${where}: byte_size must be at least 1, got ${byteLength}`);
    const fd = openRegionFile(where, key, offset + byteLength);
    this.#regions.set(name, { name, key, offset, byteLength, fd, holders: 0, registered: true });
  }

  /** Forgets a region; an unknown one is no error. Requests that are to write to it still do. */
  unregister(name: string): void {
    this.assertEnabled();
    const region = this.#regions.get(name);
    if (region) this.#remove(region);
  }

  unregisterAll(): void {
    this.assertEnabled();
    this.close();
  }

  /**
   * One region, or all of them for undefined.
   * @throws InferError NOT_FOUND
   */
  status(name?: string): readonly RegionStatus[] {
    return name === undefined ? [...this.#regions.values()] : [this.#find(name)];
  }

  /**
   * A copy of a range.
   * @param where the tensor it is for, for messages: "input x"
   * @param alreadyRead bytes that the same request has read before; together they must find room in admission
   * @throws InferError NOT_FOUND for an unknown region, INVALID_ARGUMENT for a range beyond it, RESOURCE_EXHAUSTED.
   */
  read(where: string, range: RegionRange, alreadyRead = 0): Uint8Array {
    const region = this.#findRange(where, range);
    // Only asked: the request itself is counted as soon as its inputs are complete, in the same turn.
    this.#admission.reserve(alreadyRead + range.byteLength);
    this.#admission.release(alreadyRead + range.byteLength);
    const data = Buffer.allocUnsafeSlow(range.byteLength);
    let done = 0;
    while (done < data.byteLength) {
      const length = Math.min(data.byteLength - done, MAX_IO_BYTES);
      const count = readSync(region.fd, data, done, length, region.offset + range.offset + done);
      if (count === 0) throw shrunk(where, region, fstatSync(region.fd).size);
      done += count;
    }
    return data;
  }

  /**
   * Takes hold of the ranges that a request's outputs are to be written to.
   * @throws InferError NOT_FOUND for an unknown region, INVALID_ARGUMENT for a range beyond it.
   */
  hold(ranges: readonly { readonly where: string; readonly range: RegionRange }[]): RegionHold {
    const held = new Map<string, Region>();
    for (const { where, range } of ranges) held.set(range.region, this.#findRange(where, range));
    for (const region of held.values()) region.holders++;
    return {
      write: (where, range, data) => {
        const region = held.get(range.region);
        if (!region) throw new InferError('INTERNAL', `${where}: its shared memory is not held`);
        writeRange(where, region, range, data);
      },
      release: () => {
        for (const region of held.values()) {
          region.holders--;
          closeUnused(region);
        }
        held.clear();
      },
    };
  }

  /** Forgets all regions. */
  close(): void {
    for (const region of this.#regions.values()) this.#remove(region);
  }

  /** @throws InferError UNIMPLEMENTED when clients may not register shared memory of any kind. */
  assertEnabled(): void {
    if (this.enabled) return;
    throw new InferError(
      'UNIMPLEMENTED',
      'shared memory of clients is switched off on this server (it is on with --allow-client-shm)',
    );
  }

  #remove(region: Region): void {
    this.#regions.delete(region.name);
    region.registered = false;
    closeUnused(region);
  }

  #findRange(where: string, range: RegionRange): Region {
    const region = this.#find(range.region, `${where}: `);
    if (range.offset + range.byteLength <= region.byteLength) return region;
    throw invalid(
      `${where}: shared memory region ${shownText(region.name)} has ${region.byteLength} bytes, too few for ${range.byteLength} bytes at offset ${range.offset}`,
    );
  }

  #find(name: string, where = ''): Region {
    const region = this.#regions.get(name);
    if (region) return region;
    throw new InferError('NOT_FOUND', `${where}shared memory region ${shownText(name)} is not registered`);
  }
}

function assertName(where: string, name: string): void {
  if (name === '' || name.length > MAX_NAME_LENGTH) {
    throw invalid(`${where}: its name must have 1 to ${MAX_NAME_LENGTH} characters`);
  }
  if (name.startsWith(RESERVED_PREFIX))
    throw invalid(`${where}: names that start with ${RESERVED_PREFIX} are reserved`);
}

function writeRange(where: string, region: Region, range: RegionRange, data: Uint8Array): void {
  if (data.byteLength > range.byteLength) {
    throw invalid(
      `${where}: its ${data.byteLength} bytes do not fit into the ${range.byteLength} bytes of shared memory given for it`,
    );
  }
  const start = region.offset + range.offset;
  const { size } = fstatSync(region.fd);
  // Writing behind the end would make the client's file longer.
  if (size < start + data.byteLength) throw shrunk(where, region, size);
  let done = 0;
  while (done < data.byteLength) {
    done += writeSync(region.fd, data, done, Math.min(data.byteLength - done, MAX_IO_BYTES), start + done);
  }
}

function closeUnused(region: Region): void {
  if (!region.registered && region.holders === 0) closeSync(region.fd);
}

function shrunk(where: string, region: Region, size: number): InferError {
  return invalid(
    `${where}: the memory behind shared memory region ${shownText(region.name)} has shrunk to ${size} bytes since it was registered with ${region.byteLength} bytes at offset ${region.offset}`,
  );
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
