import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { FastifyInstance } from 'fastify';

export interface PageOptions {
  /** Where the queue dashboard is; the page shows a link to it. Absent where there is none. */
  readonly dashboardPath?: string;
}

/**
 * Serves the start page at `/` to browsers, which ask for HTML: index.html beside this file (the build copies it there),
 * read once, now. To everybody else there is nothing, as in Triton.
 * @throws when the file is missing, which is a broken installation.
 */
export function registerPageRoutes(app: FastifyInstance, options: PageOptions = {}): void {
  const page = renderPage(readFileSync(new URL('./index.html', import.meta.url), 'utf8'), options);
  const body = Buffer.from(page);
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': contentSecurityPolicy(page),
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    vary: 'accept',
  };
  app.get('/', (request, reply) => {
    if (request.headers.accept?.includes('text/html')) return reply.headers(headers).send(body);
    return reply.code(404).header('x-request-id', request.id).send({ error: 'Not Found' });
  });
}

function renderPage(html: string, { dashboardPath }: PageOptions): string {
  return dashboardPath === undefined
    ? html
    : html.replace('href="/dashboard" hidden', `href="${encodeURI(dashboardPath)}"`);
}

/** Allows the page's own style and script by their hashes, requests to this server, and nothing else. */
export function contentSecurityPolicy(page: string): string {
  return [
    "default-src 'none'",
    `style-src ${inlineHash(page, 'style')}`,
    `script-src ${inlineHash(page, 'script')}`,
    "connect-src 'self'",
    'img-src blob: data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

function inlineHash(page: string, tag: 'style' | 'script'): string {
  const content = new RegExp(`<${tag}(?: [^>]*)?>([\\s\\S]*?)</${tag}>`).exec(page)?.[1];
  if (content === undefined) throw new Error(`the start page has no <${tag}>`);
  return `'sha256-${createHash('sha256').update(content).digest('base64')}'`;
}
