import { describe, expect, it } from 'vitest';
import type { AccessPolicy, AccessRequest } from '../../../../producer/dashboard/dashboard-access.ts';
import { decideAccess } from '../../../../producer/dashboard/dashboard-access.ts';
import { isLoopback } from '../../../../producer/http/request-origin.ts';

const TOKEN = 'correct-horse';
const LOCAL: AccessPolicy = { listenAddress: '127.0.0.1', token: undefined };
const OPEN: AccessPolicy = { listenAddress: '0.0.0.0', token: undefined };
const GUARDED: AccessPolicy = { listenAddress: '0.0.0.0', token: TOKEN };
const bearer = (token: string) => `Bearer ${token}`;
const basic = (pair: string) => `Basic ${Buffer.from(pair).toString('base64')}`;

function status(policy: AccessPolicy, request: Partial<AccessRequest> = {}): number {
  const decision = decideAccess(policy, {
    method: 'GET',
    rawUrl: '/dashboard/api/queues?page=1',
    host: '127.0.0.1:8000',
    authorization: undefined,
    origin: undefined,
    fetchSite: undefined,
    ...request,
  });
  return decision.allowed ? 200 : decision.status;
}

describe('dashboard access without a token', () => {
  it('lets this machine read and not write', () => {
    expect(status(LOCAL)).toBe(200);
    expect(status(LOCAL, { method: 'PUT' })).toBe(403);
  });

  it('is closed beyond loopback and names the flag that opens it', () => {
    expect(status(OPEN)).toBe(403);
    const decision = decideAccess(OPEN, {
      method: 'GET',
      rawUrl: '/dashboard',
      host: '127.0.0.1:8000',
      authorization: bearer('undefined'),
      origin: undefined,
      fetchSite: undefined,
    });
    expect(decision).toMatchObject({ allowed: false, message: expect.stringContaining('--dashboard-token') as string });
  });

  it('is closed to a foreign host name that leads here', () => {
    expect(status(LOCAL, { host: 'models.example.com' })).toBe(403);
    expect(status(LOCAL, { host: undefined })).toBe(403);
    expect(status(LOCAL, { host: 'localhost:8000' })).toBe(200);
    expect(status(LOCAL, { host: '[::1]:8000' })).toBe(200);
  });

  it('treats an empty token as none', () => {
    expect(status({ listenAddress: '0.0.0.0', token: '' }, { authorization: basic(':') })).toBe(403);
  });
});

describe('dashboard access with a token', () => {
  it('takes it as a bearer token and as a Basic password of any user', () => {
    expect(status(GUARDED, { authorization: bearer(TOKEN) })).toBe(200);
    expect(status(GUARDED, { authorization: basic(`anyone:${TOKEN}`) })).toBe(200);
    expect(status(GUARDED, { authorization: `basic ${Buffer.from(`:${TOKEN}`).toString('base64')}` })).toBe(200);
  });

  it.each([
    undefined,
    '',
    'Bearer',
    bearer('correct-hors'),
    bearer(`${TOKEN} `) + 'x',
    basic('anyone:wrong'),
    basic(TOKEN + ':'),
    'Basic !!!',
    `Digest ${TOKEN}`,
  ])('answers 401 to %j', (authorization) => {
    expect(status(GUARDED, { authorization })).toBe(401);
  });

  it('is wanted on loopback too once it is set', () => {
    expect(status({ listenAddress: '127.0.0.1', token: TOKEN })).toBe(401);
  });

  it('opens writing, unless another site caused the request', () => {
    const put = { method: 'PUT', authorization: basic(`a:${TOKEN}`) };
    expect(status(GUARDED, put)).toBe(200);
    expect(status(GUARDED, { ...put, fetchSite: 'same-origin', origin: 'http://127.0.0.1:8000' })).toBe(200);
    expect(status(GUARDED, { ...put, fetchSite: 'cross-site' })).toBe(403);
    expect(status(GUARDED, { ...put, origin: 'https://elsewhere.example' })).toBe(403);
    expect(status(GUARDED, { ...put, origin: 'null' })).toBe(403);
  });
});

describe('paths that hope to be read in two ways', () => {
  it.each([
    '//dashboard',
    '/dashboard//api/queues',
    '/dashboard/%2e%2e/v2',
    '/dashboard/static/..%2f..%2fpackage.json',
    '/dashboard/static/../api/queues',
    '/dashboard/.',
    '/dashboard\\api',
    '/dashboard/%5capi',
    '/dashboard/%252e%252e/',
    '/dashboard/queue/a%00b',
  ])('refuses %s even with the token', (rawUrl) => {
    expect(status(GUARDED, { rawUrl, authorization: bearer(TOKEN) })).toBe(404);
  });

  it('lets such characters be in the query', () => {
    expect(
      status(GUARDED, { rawUrl: '/dashboard/api/queues?activeQueue=a%2Fb//..', authorization: bearer(TOKEN) }),
    ).toBe(200);
  });
});

describe('isLoopback', () => {
  it.each(['127.0.0.1', '127.8.9.1', '::1', 'localhost', '::ffff:127.0.0.1'])('knows %s', (host) => {
    expect(isLoopback(host)).toBe(true);
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example.com', 'localhost.example.com', '', '2130706433'])(
    'does not take %j for it',
    (host) => {
      expect(isLoopback(host)).toBe(false);
    },
  );
});

describe('dashboard access with a token for reading', () => {
  const READ = 'only-looking';
  const both: AccessPolicy = { ...GUARDED, readToken: READ };
  const alone: AccessPolicy = { ...OPEN, readToken: READ };

  it('shows and changes nothing, here and beyond loopback', () => {
    for (const policy of [both, alone]) {
      for (const authorization of [bearer(READ), basic(`anyone:${READ}`)]) {
        expect(status(policy, { authorization })).toBe(200);
        expect(status(policy, { authorization, method: 'PUT' })).toBe(403);
      }
      expect(status(policy)).toBe(401);
      expect(status(policy, { authorization: bearer(`${READ}x`) })).toBe(401);
      expect(status(policy, { authorization: bearer('') })).toBe(401);
    }
  });

  it('leaves the other token what it opens', () => {
    expect(status(both, { authorization: bearer(TOKEN), method: 'PUT' })).toBe(200);
    expect(status(alone, { authorization: bearer(TOKEN) })).toBe(401);
  });
});
