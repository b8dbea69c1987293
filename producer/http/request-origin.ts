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
