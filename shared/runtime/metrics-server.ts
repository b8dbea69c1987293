import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from './logger.ts';

/** The part of a prom-client registry that is served. */
export interface MetricsText {
  metrics(): Promise<string>;
}

export interface MetricsServer {
  /** The port that is listened on; a free one was chosen when 0 was asked for. */
  readonly port: number;
  /** Stops listening and ends what is open. */
  close(): Promise<void>;
}

/** Serves GET /metrics. @throws the error of `listen` (EADDRINUSE, EACCES …), for the caller to explain. */
export async function startMetricsServer(options: {
  readonly registry: MetricsText;
  readonly host: string;
  readonly port: number;
  readonly logger: Logger;
}): Promise<MetricsServer> {
  const { registry, host, port, logger } = options;
  const server = createServer((request, response) => {
    answer(registry, request, response).catch((error: unknown) => {
      logger.error({ err: error }, 'metrics failed');
      if (!response.headersSent) sendJson(response, 500, 'metrics could not be collected');
      else response.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port, // listening on TCP, so never a string or null
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(registry: MetricsText, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? '').split('?', 1)[0];
  if (path !== '/metrics') {
    sendJson(response, 404, 'not found: metrics are at /metrics');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    sendJson(response, 405, `method not allowed: expected GET, got ${request.method ?? ''}`);
    return;
  }
  const text = await registry.metrics();
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' });
  response.end(text);
}

function sendJson(response: ServerResponse, status: number, error: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error }));
}
