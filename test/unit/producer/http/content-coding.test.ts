import { expect, test } from 'vitest';
import { pickCoding } from '../../../../producer/http/content-coding.ts';

test.each([
  ['gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['GZIP', 'gzip'],
  ['gzip, deflate', 'gzip'],
  ['deflate, gzip', 'deflate'],
  ['deflate, gzip;q=0.5', 'deflate'],
  ['gzip;q=0.2, deflate;q=1.0', 'deflate'],
  ['gzip ; q=0.3 , deflate', 'deflate'],
  ['br, gzip;q=0.1', 'gzip'],
  ['identity, gzip', undefined],
  ['identity;q=0.5, gzip', 'gzip'],
  ['gzip;q=0', undefined],
  ['gzip;q=0, identity', undefined],
  ['gzip;q=2', undefined],
  ['gzip;q=x', undefined],
  ['br', undefined],
  ['*', undefined],
  ['', undefined],
  [',,;', undefined],
])('%j is answered with %s', (header, coding) => {
  expect(pickCoding(header)).toBe(coding);
});
