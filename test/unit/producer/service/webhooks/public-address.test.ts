import { describe, expect, it } from 'vitest';
import { PublicAddresses } from '../../../../../producer/service/webhooks/public-address.ts';

describe('public addresses', () => {
  const addresses = new PublicAddresses();

  it.each(['8.8.8.8', '1.1.1.1', '172.15.0.1', '172.32.0.1', '100.63.255.255', '100.128.0.1', '223.255.255.255'])(
    'have %s',
    (address) => expect(addresses.has(address)).toBe(true),
  );

  it.each(['2606:4700::1111', '2a00:1450:4001::1', '::ffff:8.8.8.8', '::ffff:808:808', '64:ff9b::8.8.8.8'])(
    'have %s',
    (address) => expect(addresses.has(address)).toBe(true),
  );

  it.each([
    ['this network', '0.0.0.0'],
    ['private', '10.1.2.3'],
    ['private', '172.16.0.1'],
    ['private', '172.31.255.255'],
    ['private', '192.168.1.1'],
    ['of a carrier', '100.64.0.1'],
    ['loopback', '127.0.0.1'],
    ['loopback', '127.255.255.254'],
    ['link-local, where clouds tell their secrets', '169.254.169.254'],
    ['for documentation', '203.0.113.9'],
    ['for benchmarks', '198.19.0.1'],
    ['multicast', '224.0.0.1'],
    ['broadcast', '255.255.255.255'],
    ['unspecified', '::'],
    ['loopback', '::1'],
    ['mapped loopback', '::ffff:127.0.0.1'],
    ['mapped loopback in hexadecimal', '::ffff:7f00:1'],
    ['mapped in full', '0:0:0:0:0:ffff:c0a8:0101'],
    ['mapped link-local', '::ffff:a9fe:a9fe'],
    ['translated private', '64:ff9b::10.0.0.1'],
    ['IPv4-compatible', '::127.0.0.1'],
    ['link-local', 'fe80::1'],
    ['link-local with a zone', 'fe80::1%lo'],
    ['unique local', 'fd00::1'],
    ['unique local', 'fc00::1'],
    ['site-local', 'fec0::1'],
    ['multicast', 'ff02::1'],
    ['6to4 with a private address inside', '2002:c0a8:101::1'],
    ['Teredo', '2001:0:4136:e378::1'],
    ['for documentation', '2001:db8::1'],
    ['a name', 'localhost'],
    ['nothing', ''],
  ])('do not have what is %s: %s', (_kind, address) => {
    expect(addresses.has(address)).toBe(false);
  });
});
