import { get } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { fastify } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import type { DashboardOptions } from '../../../../producer/dashboard/bull-dashboard.ts';
import { registerBullDashboard } from '../../../../producer/dashboard/bull-dashboard.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';

const TOKEN = 'correct-horse';
const withToken = { authorization: `Bearer ${TOKEN}` };
const apps: FastifyInstance[] = [];

function createApp(options: Partial<DashboardOptions> = {}) {
  const app = fastify();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post('/echo', (request) => ({ bytes: (request.body as Buffer).byteLength }));
  registerBullDashboard(app, {
    queues: () => [],
    listenAddress: '127.0.0.1',
    token: undefined,
    logger: silentLogger,
    ...options,
  });
  apps.push(app);
  return app;
}

const ODD_PATHS = [
  '//dashboard',
  '//dashboard/api/queues',
  '/./dashboard',
  '/%64ashboard',
  '/%2fdashboard',
  '/dashboard%2fapi/queues',
  '/dashboard/%2e%2e/dashboard',
  '/x/../dashboard',
  '/dashboard/static/%2e%2e/index.ejs',
  '/dashboard/static/..%2f..%2fpackage.json',
  '/DASHBOARD',
  '/dashboard;/api/queues',
  '/dashboard?/../x',
  '\\dashboard',
  'http://127.0.0.1/dashboard',
];

/** Sends the path as it is: `inject` and `fetch` would tidy it up first. */
async function statusOverTheWire(app: FastifyInstance, path: string, headers = {}): Promise<number> {
  if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo; // A listening TCP server has one.
  return await new Promise((resolve, reject) => {
    const request = get({ port, host: '127.0.0.1', path, headers, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    request.on('error', reject);
  });
}

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

describe('the queue dashboard', () => {
  it('serves its page with and without the last slash, its parts and its data', async () => {
    const app = createApp();
    for (const url of ['/dashboard', '/dashboard/', '/dashboard/queue/any']) {
      const page = await app.inject({ url, headers: { host: 'localhost' } });
      expect(page.statusCode).toBe(200);
      expect(page.headers['content-type']).toContain('text/html');
    }
    const page = await app.inject({ url: '/dashboard', headers: { host: 'localhost' } });
    const script = /src="(static\/js\/main[^"]*)"/.exec(page.body)![1]!;
    const part = await app.inject({ url: `/dashboard/${script}`, headers: { host: 'localhost' } });
    expect(part.statusCode).toBe(200);
    const data = await app.inject({ url: '/dashboard/api/queues?page=1', headers: { host: 'localhost' } });
    expect(data.json()).toEqual({ queues: [] });
  });

  it('lets its page load nothing from elsewhere', async () => {
    const page = await createApp().inject({ url: '/dashboard', headers: { host: 'localhost' } });
    expect(page.body).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    expect(page.headers['content-security-policy']).toContain("default-src 'self'");
  });

  it('is closed beyond loopback without a token, for every path in it', async () => {
    const app = createApp({ listenAddress: '0.0.0.0' });
    for (const url of ['/dashboard', '/dashboard/api/queues', '/dashboard/static/favicon.ico', '/dashboard/none']) {
      const response = await app.inject({ url, headers: { host: 'localhost' } });
      expect(response.statusCode).toBe(403);
      expect(response.json<{ error: string }>().error).toContain('--dashboard-token');
    }
  });

  it('asks a browser for the token', async () => {
    const app = createApp({ listenAddress: '0.0.0.0', token: TOKEN });
    const refused = await app.inject('/dashboard');
    expect(refused.statusCode).toBe(401);
    expect(refused.headers['www-authenticate']).toMatch(/^Basic /);
    expect((await app.inject({ url: '/dashboard', headers: withToken })).statusCode).toBe(200);
  });

  it('opens nothing to paths that are spelled in other ways', async () => {
    const app = createApp({ listenAddress: '0.0.0.0', token: TOKEN });
    for (const path of ODD_PATHS) {
      expect([400, 401, 403, 404], path).toContain(await statusOverTheWire(app, path));
    }
  });

  it('serves no file from outside its own', async () => {
    const app = createApp({ token: TOKEN });
    const outside = [
      '/dashboard/static/..%2findex.ejs',
      '/dashboard/static/%2e%2e/index.ejs',
      '/dashboard/static/../index.ejs',
    ];
    for (const path of outside) expect(await statusOverTheWire(app, path, withToken), path).toBe(404);
  });

  it('changes nothing without a token and makes no jobs with one', async () => {
    const put = { method: 'PUT', url: '/dashboard/api/queues/q/pause' } as const;
    const closed = await createApp().inject({ ...put, headers: { host: 'localhost' } });
    expect(closed.statusCode).toBe(403);
    const app = createApp({ token: TOKEN });
    expect((await app.inject({ ...put, headers: withToken })).statusCode).toBe(404);
    const add = { method: 'POST', url: '/dashboard/api/queues/q/add', payload: { name: 'n' } } as const;
    expect((await app.inject({ ...add, headers: withToken })).statusCode).toBe(403);
    const edit = { method: 'PATCH', url: '/dashboard/api/queues/q/1/update-data', payload: {} } as const;
    expect((await app.inject({ ...edit, headers: withToken })).statusCode).toBe(403);
  });

  it('leaves other routes as they are', async () => {
    const app = createApp({ listenAddress: '0.0.0.0' });
    const response = await app.inject({
      method: 'POST',
      url: '/echo',
      headers: { 'content-type': 'application/json' },
      payload: '{not json',
    });
    expect(response.json()).toEqual({ bytes: 9 });
    expect(response.headers['content-security-policy']).toBeUndefined();
    expect((await app.inject('/none')).statusCode).toBe(404);
  });
});
