import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import type { GrpcServer } from '../producer/facade/triton-grpc/server.ts';
import { InferError } from '../shared/errors.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { type MetricsServer, type Readiness, startMetricsServer } from '../shared/runtime/metrics-server.ts';

/** @throws InferError INVALID_ARGUMENT for a server that nobody could call */
export function assertAnyProtocol({ allowHttp, allowGrpc }: { allowHttp: boolean; allowGrpc: boolean }): void {
  if (allowHttp || allowGrpc) return;
  throw new InferError('INVALID_ARGUMENT', '--allow-http and --allow-grpc are both false: nothing would be served');
}

/** Opens the HTTP port, or does nothing where HTTP is switched off. Returns the address to show. @throws InferError with one clear line. */
export async function listenHttp(
  app: FastifyInstance,
  settings: { readonly allowHttp: boolean; readonly httpAddress: string; readonly httpPort: number },
): Promise<string | undefined> {
  if (!settings.allowHttp) return undefined;
  const { httpAddress: host, httpPort: port } = settings;
  try {
    await app.listen({ host, port });
  } catch (error) {
    throw listenError('HTTP', host, port, '--http-port', error);
  }
  const address = app.server.address();
  const actual = typeof address === 'object' && address !== null ? address.port : port;
  return urlOf(host, actual);
}

/** Opens the gRPC port. Returns the address to show, which is what clients take. @throws InferError with one clear line. */
export async function listenGrpc(server: GrpcServer, host: string, port: number): Promise<string> {
  try {
    return addressOf(host, await server.listen(host, port));
  } catch (error) {
    throw listenError('gRPC', host, port, '--grpc-port', error);
  }
}

/** Opens the metrics port, or does nothing where metrics are switched off. */
export async function listenMetrics(
  settings: { readonly allowMetrics: boolean; readonly metricsAddress: string; readonly metricsPort: number },
  registry: Registry,
  logger: Logger,
  ready?: Readiness,
): Promise<MetricsServer | undefined> {
  if (!settings.allowMetrics) return undefined;
  const { metricsAddress: host, metricsPort: port } = settings;
  try {
    return await startMetricsServer({ registry, host, port, logger, ...(ready && { ready }) });
  } catch (error) {
    throw listenError('metrics', host, port, '--metrics-port', error);
  }
}

/** How a person reaches what listens on an address: the wildcard is shown as this machine. */
export function urlOf(host: string, port: number): string {
  return `http://${addressOf(host, port)}`;
}

function addressOf(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return `${shown}:${port}`;
}

function listenError(what: string, host: string, port: number, option: string, error: unknown): InferError {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  const where = `port ${port} of ${host}`;
  const reason =
    code === 'EADDRINUSE'
      ? `${where} is taken; end what listens there, or choose another with ${option}`
      : code === 'EACCES'
        ? `${where} may not be opened by this user; choose one above 1023 with ${option}`
        : code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND'
          ? `${host} is no address of this machine`
          : `${where} cannot be opened`;
  return new InferError('UNAVAILABLE', `${what}: ${reason}`, { cause: error });
}
