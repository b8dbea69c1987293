import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** What of IPv4 is not, or not surely, somewhere on the internet (IANA's registry of special-purpose addresses). */
const CLOSED_V4: readonly (readonly [address: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
];

/** What is closed of 2000::/3, the only part of IPv6 that is public: protocols that carry IPv4 inside, and documentation. */
const CLOSED_V6: typeof CLOSED_V4 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
];

/** Whose last four bytes are an IPv4 address, which is what is reached: mapped, and NAT64. */
const IPV4_INSIDE = ['0:0:0:0:0:ffff:', '64:ff9b:0:0:0:0:'];

/** Decides whether a webhook may be sent to an address. */
export class PublicAddresses {
  readonly #closed = new BlockList();
  readonly #globalV6 = new BlockList();

  constructor() {
    for (const [address, prefix] of CLOSED_V4) this.#closed.addSubnet(address, prefix, 'ipv4');
    for (const [address, prefix] of CLOSED_V6) this.#closed.addSubnet(address, prefix, 'ipv6');
    this.#globalV6.addSubnet('2000::', 3, 'ipv6');
  }

  /** False for every private, loopback, link-local or otherwise special address, and for what is none. */
  has(address: string): boolean {
    if (isIPv4(address)) return !this.#closed.check(address, 'ipv4');
    // A zone is only there for link-local ones.
    if (!isIPv6(address) || address.includes('%')) return false;
    const groups = groupsOf(address);
    const inside = IPV4_INSIDE.find((prefix) => groups.startsWith(prefix));
    if (inside !== undefined) return this.has(ipv4Of(groups));
    return this.#globalV6.check(address, 'ipv6') && !this.#closed.check(address, 'ipv6');
  }
}

/** All eight groups in hexadecimal, without leading zeros. */
function groupsOf(address: string): string {
  // The URL parser has the one form of an address, whatever it was written like.
  const short = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = '', tail] = short.split('::');
  const left = head === '' ? [] : head.split(':');
  if (tail === undefined) return left.join(':');
  const right = tail === '' ? [] : tail.split(':');
  return [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right].join(':');
}

function ipv4Of(groups: string): string {
  const [high = '', low = ''] = groups.split(':').slice(-2);
  return [high, low]
    .map((group) => parseInt(group, 16))
    .flatMap((value) => [value >> 8, value & 255])
    .join('.');
}
