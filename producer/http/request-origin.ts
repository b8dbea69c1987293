import { BlockList, isIP } from 'node:net';

/** The headers by which a browser says where a request comes from; one that was not sent is undefined. */
export interface RequestOrigin {
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
}

/** Whether an address that was given to `listen`, or a host name, means this machine alone. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true;
  const family = isIP(host);
  return family !== 0 && LOOPBACK.check(host, family === 4 ? 'ipv4' : 'ipv6');
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether a browser sent the request for a page of another site. Programs send none of these headers. */
export function isForeign({ fetchSite, origin, host }: RequestOrigin): boolean {
  if (fetchSite !== undefined && fetchSite !== 'same-origin' && fetchSite !== 'none') return true;
  return origin !== undefined && origin.replace(/^https?:\/\//, '') !== host;
}

/**
 * Whether a browser got to this machine by a name that somebody else owns and lets point here: to the browser such a page
 * is our own. Told apart on loopback alone, where the server has no other names.
 * @param localAddress the address of the connection on this side
 */
export function isRebound({ fetchSite, origin, host }: RequestOrigin, localAddress: string | undefined): boolean {
  const fromBrowser = fetchSite !== undefined || origin !== undefined;
  return fromBrowser && isLoopback(localAddress?.replace(/^::ffff:/, '') ?? '') && !isLoopback(hostName(host));
}

/** The name in a Host header, without the port. */
export function hostName(host: string | undefined): string {
  const bare = (host ?? '').toLowerCase().replace(/:\d*$/, '');
  return bare.startsWith('[') ? bare.slice(1, -1) : bare;
}
