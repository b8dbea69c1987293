import { createHash } from 'node:crypto';
import { fastify } from 'fastify';
import { describe, expect, it } from 'vitest';
import type { PageOptions } from '../../../../producer/dashboard/page-routes.ts';
import { contentSecurityPolicy, registerPageRoutes } from '../../../../producer/dashboard/page-routes.ts';

async function getPage(options?: PageOptions) {
  const app = fastify();
  registerPageRoutes(app, options);
  return await app.inject({ url: '/', headers: { accept: 'text/html,*/*;q=0.8' } });
}

describe('the start page', () => {
  it('is HTML that loads nothing from elsewhere', async () => {
    const response = await getPage();
    expect(response.statusCode).toBe(200);
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8');
    const addresses = response.body.match(/(?:src|href)="(?!#|data:|\/)[^"]*"/g);
    expect(addresses).toBeNull();
    expect(response.body).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/);
    expect(response.body).not.toMatch(/\sstyle="|\son\w+="/);
  });

  it('is not there for clients that do not ask for HTML', async () => {
    const app = fastify();
    registerPageRoutes(app);
    const response = await app.inject({ url: '/', headers: { accept: '*/*' } });
    expect([response.statusCode, response.json()]).toEqual([404, { error: 'Not Found' }]);
  });

  it('allows its own style and script and no other', async () => {
    const response = await getPage();
    const policy = String(response.headers['content-security-policy']);
    const script = /<script type="module">([\s\S]*?)<\/script>/.exec(response.body)![1]!;
    const hash = createHash('sha256').update(script).digest('base64');
    expect(policy).toContain(`script-src 'sha256-${hash}'`);
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('unsafe');
  });

  it('links the dashboard only where there is one', async () => {
    const link = (body: string) => /<a id="dashboard"[^>]*>/.exec(body)![0];
    expect(link((await getPage()).body)).toContain('hidden');
    expect(link((await getPage({ dashboardPath: '/queues' })).body)).toBe('<a id="dashboard" href="/queues">');
  });

  it('hashes exactly what stands between the tags', () => {
    const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    const policy = contentSecurityPolicy('<style>\na{}\n</style><script type="module">let b;</script>');
    expect(policy).toContain(`style-src ${hash('\na{}\n')};`);
    expect(policy).toContain(`script-src ${hash('let b;')};`);
  });
});
