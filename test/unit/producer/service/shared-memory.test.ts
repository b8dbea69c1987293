import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Admission } from '../../../../producer/service/admission.ts';
import { SharedMemory } from '../../../../producer/service/shared-memory.ts';
import { InferError } from '../../../../shared/errors.ts';
import { useShm } from '../../../support/shm.ts';

const makeShm = useShm();
const made: string[] = [];
const TEN = Uint8Array.from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);

let admission: Admission;
let memory: SharedMemory;
beforeEach(() => {
  admission = new Admission({ maxRequestsInFlight: 10, maxBytesInFlight: 1000 });
  memory = new SharedMemory({ enabled: true, admission });
});
afterEach(() => {
  memory.close();
  made.length = 0;
});

/** The code and the text of the refusal, which never shows a key or a path. */
function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (!(error instanceof InferError)) throw error;
    expect(error.message).not.toMatch(/\/dev|millrace_test/);
    return `${error.code}: ${error.message}`;
  }
  throw new Error('was accepted');
}

function createShm(content: Uint8Array) {
  const shm = makeShm(content);
  made.push(shm.path);
  return shm;
}

/** Descriptors of this file's shared memory objects; other test files may have theirs in the same process. */
function openObjects(): number {
  const folder = `/proc/${process.pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      const target = readlinkSync(`${folder}/${fd}`);
      return made.some((path) => target.startsWith(path));
    } catch {
      // Closed meanwhile: none of this test's own, which does nothing but count here.
      return false;
    }
  }).length;
}

describe('registering', () => {
  test('takes a key with and without a slash in front, and shows it as it was given', () => {
    const { key } = createShm(TEN);
    memory.register('a', key, 0, 10);
    memory.register('b', key.slice(1), 2, 3);
    expect(memory.status()).toMatchObject([
      { name: 'a', key, offset: 0, byteLength: 10 },
      { name: 'b', key: key.slice(1), offset: 2, byteLength: 3 },
    ]);
    expect(memory.status('b')).toHaveLength(1);
  });

  test('refuses a name that is taken, until it is unregistered', () => {
    const { key } = createShm(TEN);
    memory.register('a', key, 0, 10);
    expect(refusal(() => memory.register('a', key, 0, 10))).toMatch(/^ALREADY_EXISTS: shared memory region a/);
    memory.unregister('a');
    memory.unregister('a');
    expect(refusal(() => memory.status('a'))).toMatch(/^NOT_FOUND: shared memory region a is not registered/);
    memory.register('a', key, 0, 10);
  });

  test.each(['', 'x'.repeat(1025), 'triton_python_backend_shm_region_1'])('refuses the name %.40s', (name) => {
    const { key } = createShm(TEN);
    expect(refusal(() => memory.register(name, key, 0, 10))).toMatch(/^INVALID_ARGUMENT/);
    expect(openObjects()).toBe(0);
  });

  test.each([
    [0, 11],
    [1, 10],
    [11, 1],
    [Number.MAX_SAFE_INTEGER, 1],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
    [0, 0],
  ])('refuses a region at %d of %d bytes in an object of ten', (offset, byteLength) => {
    const { key } = createShm(TEN);
    expect(refusal(() => memory.register('a', key, offset, byteLength))).toMatch(/^INVALID_ARGUMENT/);
    expect(openObjects()).toBe(0);
  });

  test('says both sizes when the object is too small', () => {
    const { key } = createShm(TEN);
    const text = refusal(() => memory.register('a', key, 4, 8));
    expect(text).toContain('has 10 bytes, the region would end at 12');
  });

  test.each([
    '',
    '/',
    '.',
    '..',
    '/..',
    '/../etc/passwd',
    '../../etc/passwd',
    '/a/../../../etc/passwd',
    '//etc/passwd',
    '/etc/passwd',
    '/./passwd',
    '/.hidden',
    '/sem.x',
    'a\0b',
    '/a\n',
    '/ä',
    '/a b',
    `/${'x'.repeat(256)}`,
  ])('refuses the key %j before it touches a file', (key) => {
    expect(refusal(() => memory.register('a', key, 0, 1))).toContain('key must be a name such as /my_region');
  });

  test('refuses what is not there', () => {
    expect(refusal(() => memory.register('a', '/millrace_test_missing', 0, 1))).toBe(
      'INVALID_ARGUMENT: shared memory region a: there is no shared memory object with its key',
    );
  });

  test.each([
    ['a link to a file elsewhere', (path: string) => symlinkSync('/etc/passwd', path)],
    ['a link to another object', (path: string) => symlinkSync(createShm(TEN).path, path)],
    ['a folder', (path: string) => mkdirSync(path)],
    ['a pipe that nobody writes to', (path: string) => execFileSync('mkfifo', [path])],
  ])('refuses %s', (_what, make) => {
    const { key, path } = createShm(TEN);
    rmSync(path);
    make(path);
    expect(refusal(() => memory.register('a', key, 0, 1))).toContain('its key is not that of a shared memory object');
    expect(openObjects()).toBe(0);
  });

  test('refuses more regions than there may be', () => {
    const { key } = createShm(TEN);
    for (let i = 0; i < 1024; i++) memory.register(`r${i}`, key, 0, 1);
    expect(refusal(() => memory.register('more', key, 0, 1))).toMatch(/^RESOURCE_EXHAUSTED.*1024 regions/);
    memory.unregisterAll();
    expect(memory.status()).toEqual([]);
    expect(openObjects()).toBe(0);
  });

  test('is not implemented where it is switched off, and the status still answers', () => {
    const off = new SharedMemory({ enabled: false, admission });
    expect(refusal(() => off.register('a', '/a', 0, 1))).toMatch(/^UNIMPLEMENTED: .*--allow-client-shm/);
    expect(refusal(() => off.unregister('a'))).toMatch(/^UNIMPLEMENTED/);
    expect(refusal(() => off.unregisterAll())).toMatch(/^UNIMPLEMENTED/);
    expect(off.status()).toEqual([]);
  });

  test('is not implemented beside Linux', () => {
    const elsewhere = new SharedMemory({ enabled: true, admission, platform: 'darwin' });
    expect(refusal(() => elsewhere.register('a', '/a', 0, 1))).toMatch(/^UNIMPLEMENTED: .*Linux.*darwin/);
  });
});

describe('reading', () => {
  test('copies a range of the region, which begins at its own offset', () => {
    const { key, path } = createShm(TEN);
    memory.register('a', key, 2, 6);
    const data = memory.read('input x', { region: 'a', offset: 1, byteLength: 5 });
    expect([...data]).toEqual([3, 4, 5, 6, 7]);
    truncateSync(path, 0);
    expect([...data]).toEqual([3, 4, 5, 6, 7]);
  });

  test('goes on when the key is unlinked', () => {
    const { key, path } = createShm(TEN);
    memory.register('a', key, 0, 10);
    rmSync(path);
    expect(memory.read('input x', { region: 'a', offset: 0, byteLength: 10 })).toEqual(Buffer.from(TEN));
  });

  test('sees what is written after registering', () => {
    const { key, path } = createShm(TEN);
    const link = `${path}_link`;
    linkSync(path, link);
    memory.register('a', key, 0, 10);
    truncateSync(link, 0);
    appendFileSync(link, Uint8Array.from(TEN).reverse());
    rmSync(link);
    expect([...memory.read('input x', { region: 'a', offset: 0, byteLength: 2 })]).toEqual([9, 8]);
  });

  test.each([
    [0, 7],
    [1, 6],
    [7, 0],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  ])('refuses a range at %d of %d bytes in a region of six, although the object is longer', (offset, byteLength) => {
    const { key } = createShm(TEN);
    memory.register('a', key, 2, 6);
    const text = refusal(() => memory.read('input x', { region: 'a', offset, byteLength }));
    expect(text).toMatch(/^INVALID_ARGUMENT: input x: shared memory region a has 6 bytes, too few for/);
  });

  test('takes an empty range', () => {
    const { key } = createShm(TEN);
    memory.register('a', key, 2, 6);
    expect(memory.read('input x', { region: 'a', offset: 6, byteLength: 0 })).toHaveLength(0);
  });

  test('refuses a region that nobody registered', () => {
    const text = refusal(() => memory.read('input x', { region: 'a', offset: 0, byteLength: 1 }));
    expect(text).toBe('NOT_FOUND: input x: shared memory region a is not registered');
  });

  test('says so when the object has shrunk, and works again when it has grown', () => {
    const { key, path } = createShm(TEN);
    const range = { region: 'a', offset: 0, byteLength: 10 };
    memory.register('a', key, 0, 10);
    truncateSync(path, 4);
    expect(refusal(() => memory.read('input x', range))).toMatch(
      /^INVALID_ARGUMENT: input x: .*has shrunk to 4 bytes since it was registered with 10 bytes at offset 0/,
    );
    truncateSync(path, 10);
    expect([...memory.read('input x', range)]).toEqual([0, 1, 2, 3, 0, 0, 0, 0, 0, 0]);
  });

  test('refuses more than there is room for, the other inputs of the request included, before it takes memory', () => {
    const { key, path } = createShm(TEN);
    truncateSync(path, 2 ** 40);
    memory.register('a', key, 0, 2 ** 40);
    const read = (byteLength: number, before: number) => () =>
      memory.read('input x', { region: 'a', offset: 0, byteLength }, before);
    expect(refusal(read(2 ** 40, 0))).toMatch(/^RESOURCE_EXHAUSTED/);
    expect(refusal(read(600, 600))).toMatch(/^RESOURCE_EXHAUSTED/);
    expect(read(600, 400)()).toHaveLength(600);
    expect(admission.bytesInFlight).toBe(0);
  });
});

describe('writing', () => {
  test('writes to the beginning of a held range and leaves the rest alone', () => {
    const shm = createShm(TEN);
    memory.register('a', shm.key, 2, 6);
    const range = { region: 'a', offset: 1, byteLength: 4 };
    const hold = memory.hold([{ where: 'output y', range }]);
    hold.write('output y', range, Uint8Array.from([70, 71, 72]));
    hold.release();
    expect([...shm.bytes()]).toEqual([0, 1, 2, 70, 71, 72, 6, 7, 8, 9]);
  });

  test('refuses more bytes than the range has, with both sizes', () => {
    const shm = createShm(TEN);
    memory.register('a', shm.key, 0, 10);
    const range = { region: 'a', offset: 0, byteLength: 4 };
    const hold = memory.hold([{ where: 'output y', range }]);
    const text = refusal(() => hold.write('output y', range, new Uint8Array(5)));
    expect(text).toBe(
      'INVALID_ARGUMENT: output y: its 5 bytes do not fit into the 4 bytes of shared memory given for it',
    );
    hold.release();
    expect([...shm.bytes()]).toEqual([...TEN]);
  });

  test('never makes an object longer that has shrunk', () => {
    const shm = createShm(TEN);
    memory.register('a', shm.key, 0, 10);
    const range = { region: 'a', offset: 0, byteLength: 10 };
    const hold = memory.hold([{ where: 'output y', range }]);
    truncateSync(shm.path, 4);
    expect(refusal(() => hold.write('output y', range, new Uint8Array(5)))).toContain('has shrunk to 4 bytes');
    hold.release();
    expect(shm.bytes()).toHaveLength(4);
  });

  test('refuses unknown regions and wrong ranges as soon as they are to be held, and holds none then', () => {
    const shm = createShm(TEN);
    memory.register('a', shm.key, 0, 10);
    const good = { where: 'output y', range: { region: 'a', offset: 0, byteLength: 10 } };
    const hold = (region: string, byteLength: number) => () =>
      memory.hold([good, { where: 'output z', range: { region, offset: 0, byteLength } }]);
    expect(refusal(hold('b', 1))).toMatch(/^NOT_FOUND: output z: shared memory region b/);
    expect(refusal(hold('a', 11))).toMatch(/^INVALID_ARGUMENT: output z: .*has 10 bytes/);
    memory.unregister('a');
    expect(openObjects()).toBe(0);
  });

  test('still reaches a region that was unregistered meanwhile, and even one that took its name', () => {
    const first = createShm(TEN);
    const second = createShm(TEN);
    const range = { region: 'a', offset: 0, byteLength: 1 };
    memory.register('a', first.key, 0, 10);
    const one = memory.hold([{ where: 'output y', range }]);
    const two = memory.hold([
      { where: 'output y', range },
      { where: 'output z', range },
    ]);
    memory.unregisterAll();
    memory.register('a', second.key, 0, 10);
    one.release();
    two.write('output y', range, Uint8Array.from([99]));
    expect([first.bytes()[0], second.bytes()[0]]).toEqual([99, 0]);
    expect(openObjects()).toBe(2);
    two.release();
    expect(openObjects()).toBe(1);
  });
});

test('closes everything and leaves the objects to their owner', () => {
  const { key, path } = createShm(TEN);
  memory.register('a', key, 0, 10);
  memory.close();
  expect(openObjects()).toBe(0);
  expect(existsSync(path)).toBe(true);
  expect(readdirSync('/dev/shm')).toContain(key.slice(1));
});
