import type { Redis } from 'ioredis';
import { InferError } from '../errors.ts';
import { QUEUE_PREFIX } from '../wire/names.ts';
import { addressOf } from './redis.ts';

/** ZMSCORE and LMOVE came with 6.2. */
const MINIMUM_VERSION = [6, 2] as const;

/**
 * Refuses a Redis on which jobs would be lost: too old, or one that evicts keys when it is full (measured with
 * allkeys-lru: 60 of 300 jobs ever ran and nobody got an error); and one that takes no writes, such as a replica.
 * @throws InferError INVALID_ARGUMENT with what puts it right; UNAVAILABLE for writes that are refused, which may pass.
 */
export async function assertUsableRedis(redis: Redis): Promise<void> {
  const info = parseInfo(await redis.info());
  assertVersion(info);
  assertNoEviction(info, addressOf(redis));
  const refusal = await findWriteRefusal(redis);
  if (refusal === undefined) return;
  const address = addressOf(redis);
  if (!refusal.startsWith('MOVED')) {
    throw new InferError('UNAVAILABLE', `Redis at ${address} takes no writes: ${refusal}`);
  }
  throw new InferError(
    'INVALID_ARGUMENT',
    `Redis at ${address} is a node of a cluster: expected redis-cluster://host:port as the address, got redis://`,
  );
}

/**
 * Why Redis takes no writes now, in its own words; undefined when it does. One command that removes nothing stands for all:
 * replicas, clusters that are down, disks that are full and users without rights refuse it as they refuse any other.
 * @throws what breaks before Redis has answered
 */
export async function findWriteRefusal(redis: Redis): Promise<string | undefined> {
  try {
    await redis.del(`${QUEUE_PREFIX}.probe`);
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'ReplyError') throw error;
    return error.message;
  }
}

function assertVersion(info: ReadonlyMap<string, string>): void {
  const version = info.get('redis_version') ?? '0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [wantedMajor, wantedMinor] = MINIMUM_VERSION;
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) return;
  throw new InferError('INVALID_ARGUMENT', `Redis ${wantedMajor}.${wantedMinor} or newer is needed, found ${version}`);
}

function assertNoEviction(info: ReadonlyMap<string, string>, address: string): void {
  const policy = info.get('maxmemory_policy');
  // A server that does not tell (some managed ones) gets the benefit of the doubt.
  if (policy === undefined || policy === 'noeviction') return;
  const [host, port] = address.split(/:(?=\d+$)/);
  throw new InferError(
    'INVALID_ARGUMENT',
    `Redis at ${address} throws keys away when it is full: maxmemory-policy is ${policy}, expected noeviction. ` +
      `Put it right with: redis-cli -h ${host} -p ${port} CONFIG SET maxmemory-policy noeviction`,
  );
}

/** The `name:value` lines of INFO. */
export function parseInfo(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0 && !line.startsWith('#')) fields.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return fields;
}
