import { describe, expect, test } from 'vitest';
import { isForeign, isRebound } from '../../../../producer/http/request-origin.ts';

const program = { host: 'model-server', origin: undefined, fetchSite: undefined };
const page = { host: 'localhost:8000', origin: 'http://localhost:8000', fetchSite: 'same-origin' };

describe('a request', () => {
  test('of a page that came from this server is not foreign', () => {
    expect(isForeign(page)).toBe(false);
  });

  test.each([{ fetchSite: 'cross-site' }, { origin: 'https://elsewhere.example' }])('with %j is foreign', (change) => {
    expect(isForeign({ ...page, ...change })).toBe(true);
  });

  test.each(['127.0.0.1', '::1', '::ffff:127.0.0.1'])(
    'of a page on %s is rebound unless the page knows the server by a name of this machine',
    (address) => {
      for (const host of ['localhost:8000', '127.0.0.1:8000', '[::1]:8000', 'LOCALHOST']) {
        expect(isRebound({ ...page, host, origin: `http://${host}` }, address)).toBe(false);
      }
      for (const host of ['rebound.example:8000', 'localhost.example', '10.0.0.1', undefined]) {
        expect(isRebound({ ...page, host, origin: `http://${host}` }, address)).toBe(true);
        expect(isRebound({ ...page, host, origin: undefined }, address)).toBe(true);
      }
    },
  );

  test('of a program is not rebound, whatever name it uses', () => {
    expect(isRebound(program, '127.0.0.1')).toBe(false);
  });

  test('that came over the network is not rebound: the server may have any name there', () => {
    expect(isRebound({ ...page, host: 'models.example' }, '10.0.0.5')).toBe(false);
    expect(isRebound({ ...page, host: 'models.example' }, undefined)).toBe(false);
  });
});
