import type { RedisOptions } from 'ioredis';
import { InferError } from '../errors.ts';
import { clusterConnector } from './cluster-connector.ts';

const DEFAULT_PORTS = { standalone: 6379, sentinel: 26_379, cluster: 6379 } as const;
const FORM = /^redis(s?)(?:-(sentinel|cluster))?:\/\/(?:([^@/]*)@)?([^@/?#]+)(\/[^?#]*)?(\?[^#]*)?$/;

/** How replies look in types is the caller's choice. */
export type RedisAddressOptions = Omit<RedisOptions, 'replyMapping'>;

interface Node {
  readonly host: string;
  readonly port: number;
}

/**
 * What an address of Redis says, as options of a client:
 *
 *   redis://[user:password@]host[:port][/database]            one server
 *   redis-sentinel://[…@]host[:port],…/name[/database]        the master that the sentinels call by this name, where they
 *     [?sentinelUsername=…&sentinelPassword=…]                 want a password themselves with that
 *   redis-cluster://[…@]host[:port],…                         the node of a cluster that holds our keys, which share a slot
 *
 * With `rediss` in place of `redis` all of it goes through TLS.
 * @throws InferError INVALID_ARGUMENT, without the address: there may be a password in it.
 */
export function redisOptionsOf(address: string): RedisAddressOptions {
  const [, tls, form = 'standalone', login, hosts = '', path = '', query = ''] = FORM.exec(address) ?? badAddress();
  const kind = form as keyof typeof DEFAULT_PORTS;
  const nodes = hosts.split(',').map((host) => nodeOf(host, DEFAULT_PORTS[kind]));
  const [first] = nodes;
  if (!first || (kind === 'standalone' && nodes.length > 1)) return badAddress();
  if (query !== '' && kind !== 'sentinel') return badAddress();
  const common: RedisAddressOptions = { ...loginOf(login), ...(tls === 's' && { tls: tlsOf(first.host) }) };
  const names = path.split('/').slice(1).map(decoded);
  if (kind === 'cluster') {
    if (names.some((name) => name !== '')) return badAddress();
    return { ...common, ...first, Connector: clusterConnector(nodes) };
  }
  const name = kind === 'sentinel' ? names.shift() : undefined;
  if (kind === 'sentinel' && (name === undefined || name === '')) return badAddress();
  const [database = '', ...more] = names;
  if (more.length > 0 || !/^\d*$/.test(database)) return badAddress();
  const db = Number(database);
  if (name === undefined) return { ...common, ...first, db };
  return {
    ...common,
    db,
    name,
    sentinels: nodes,
    ...sentinelLoginOf(query),
    ...(common.tls && { enableTLSForSentinelMode: true, sentinelTLS: common.tls }),
    sentinelRetryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // Tells of a failover at once, also where the old master is out of reach and cannot.
    failoverDetector: true,
  };
}

function loginOf(login: string | undefined): RedisAddressOptions {
  if (login === undefined || login === '') return {};
  const colon = login.indexOf(':');
  if (colon < 0) return { username: decoded(login) };
  const username = decoded(login.slice(0, colon));
  const password = decoded(login.slice(colon + 1));
  return { ...(username !== '' && { username }), ...(password !== '' && { password }) };
}

function sentinelLoginOf(query: string): RedisAddressOptions {
  const { sentinelUsername, sentinelPassword, ...others } = Object.fromEntries(new URLSearchParams(query));
  if (Object.keys(others).length > 0) return badAddress();
  return {
    ...(sentinelUsername !== undefined && { sentinelUsername }),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
  };
}

function nodeOf(text: string, defaultPort: number): Node {
  const match = /^(\[[\da-fA-F:.]+\]|[^:[\]\s]+)(?::(\d{1,5}))?$/.exec(text);
  const [, name = '', port] = match ?? badAddress();
  const number = port === undefined ? defaultPort : Number(port);
  if (number < 1 || number > 65_535) return badAddress();
  return { host: name.replace(/^\[|\]$/g, ''), port: number };
}

/** Names are told to the server and checked against its certificate; numbers cannot be told. */
function tlsOf(host: string): { servername?: string } {
  return /^[\d.]+$|:/.test(host) ? {} : { servername: host };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return badAddress();
  }
}

function badAddress(): never {
  throw new InferError(
    'INVALID_ARGUMENT',
    'the Redis address must look like redis://[user:password@]host[:port][/database], ' +
      'redis-sentinel://[user:password@]host[:port],…/master-name[/database] or ' +
      'redis-cluster://[user:password@]host[:port],…; with rediss in place of redis for TLS',
  );
}
