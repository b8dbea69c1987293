import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from './logger.ts';

/** The part of a prom-client registry that is served. */
export interface MetricsText {
  metrics(): Promise<string>;
}

const METRICS_PATH = '/metrics';
const LIVE_PATH = '/v2/health/live';
const READY_PATH = '/v2/health/ready';
const PATHS: readonly string[] = [METRICS_PATH, LIVE_PATH, READY_PATH];

export interface MetricsServer {
  /** The port that is listened on; a free one was chosen when 0 was asked for. */
  readonly port: number;
  /** Stops listening and ends what is open. */
  close(): Promise<void>;
}

/** Whether the process can do its work now; the reason when not. */
export type Readiness = () => { readonly ok: true } | { readonly ok: false; readonly reason: string };

/**
 * Serves GET /metrics, and health for probes of processes without a port for HTTP. @throws the error of `listen` (EADDRINUSE, EACCES …), for the caller to explain. */
export async function startMetricsServer(options: {
  readonly registry: MetricsText;
  /** Always ready unless given. */
  readonly ready?: Readiness;
  readonly host: string;
  readonly port: number;
  readonly logger: Logger;
}): Promise<MetricsServer> {
  const { host, port, logger } = options;
  const server = createServer((request, response) => {
    answer(options, request, response).catch((error: unknown) => {
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

async function answer(
  served: { readonly registry: MetricsText; readonly ready?: Readiness },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? '').split('?', 1)[0] ?? '';
  if (!PATHS.includes(path)) {
    sendJson(response, 404, 'not found: metrics are at /metrics, health at /v2/health/live and /v2/health/ready');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    sendJson(response, 405, `method not allowed: expected GET, got ${request.method ?? ''}`);
    return;
  }
  if (path !== METRICS_PATH) {
    sendHealth(response, (path === READY_PATH && served.ready?.()) || { ok: true });
    return;
  }
  const text = await served.registry.metrics();
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' });
  response.end(text);
}

/** As `/v2/health/…` of the HTTP port answers: 200 without a body, or 400. */
function sendHealth(response: ServerResponse, health: ReturnType<Readiness>): void {
  if (!health.ok) {
    sendJson(response, 400, health.reason);
    return;
  }
  response.writeHead(200);
  response.end();
}

function sendJson(response: ServerResponse, status: number, error: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error }));
}
