import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { InferError } from '../../shared/errors.ts';

/** Where Linux keeps POSIX shared memory objects. */
const DIRECTORY = '/dev/shm';

/**
 * The name of a shared memory object: printable ASCII without a slash, but for one in front. It may not begin with a
 * dot, and not with `sem.`, which is how the C library names semaphores in the same folder.
 */
const KEY = /^\/?(?!\.|sem\.)[\x21-\x2e\x30-\x7e]{1,255}$/;

/**
 * Opens a POSIX shared memory object of at least `endOffset` bytes for reading and writing. The file descriptor stays
 * usable when the key is unlinked. The caller closes it.
 * @param where for messages
 * @throws InferError INVALID_ARGUMENT for anything but the key of such an object that this process may open.
 */
export function openRegionFile(where: string, key: string, endOffset: number): number {
  if (!KEY.test(key)) {
    throw invalid(`${where}: key must be a name such as /my_region, 1 to 255 printable characters without a slash`);
  }
  const fd = openFile(where, `${DIRECTORY}/${key.startsWith('/') ? key.slice(1) : key}`);
  try {
    const stat = fstatSync(fd);
    // A pipe, device or folder; O_NONBLOCK has kept a pipe from blocking until now.
    if (!stat.isFile()) throw invalid(`${where}: its key is not that of a shared memory object`);
    if (stat.size < endOffset) {
      throw invalid(`${where}: the shared memory object has ${stat.size} bytes, the region would end at ${endOffset}`);
    }
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Only the last part of the path comes from a client, and with O_NOFOLLOW that is no link to anywhere else. */
function openFile(where: string, path: string): number {
  try {
    return openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    throw openError(where, error);
  }
}

function openError(where: string, error: unknown): InferError {
  switch (error instanceof Error && 'code' in error ? error.code : undefined) {
    case 'ENOENT':
      return invalid(`${where}: there is no shared memory object with its key`);
    case 'EACCES':
    case 'EPERM':
      return invalid(`${where}: the server may not read and write the shared memory object with its key`);
    case 'ELOOP':
    case 'EISDIR':
    case 'ENXIO':
      return invalid(`${where}: its key is not that of a shared memory object`);
    case 'EMFILE':
    case 'ENFILE':
      return new InferError('RESOURCE_EXHAUSTED', `${where}: the server has no file descriptor left`, { cause: error });
    default:
      return new InferError('INTERNAL', `${where}: the shared memory object cannot be opened`, { cause: error });
  }
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
