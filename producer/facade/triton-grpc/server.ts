import type { Http2Server, ServerHttp2Session } from 'node:http2';
import { Server, ServerCredentials, type ServerOptions } from '@grpc/grpc-js';
import { InferError } from '../../../shared/errors.ts';
import { NO_RESTRICTIONS, type Restrictions } from '../../service/restricted-access.ts';
import type { Services } from '../../service/services.ts';
import { CallGate } from './call-gate.ts';
import type { GrpcSettings } from './grpc-settings.ts';
import { type Listener, listen } from './listener.ts';
import { categoriesOf, createMethods } from './methods.ts';

export interface GrpcServerOptions {
  readonly services: Services;
  readonly settings: GrpcSettings;
  /** Which calls need a header; none unless given. */
  readonly restrictions?: Restrictions;
}

export interface GrpcServer {
  /** Returns the port, also where 0 asked for a free one. Rejects with the system's error. */
  listen(host: string, port: number): Promise<number>;
  /** Answers calls under way and ends streams, refuses new ones, and cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const MAX_MESSAGE_BYTES = 2 ** 31 - 1;

/**
 * How much a client may send ahead, in bytes, on one call and on one connection. At the 64 KiB of HTTP/2 a message of
 * 600 KB waits ten times for leave to go on. What is sent ahead counts as bytes in flight.
 */
const WINDOW_BYTES = 4 * 1024 * 1024;

/** How often calls that stall are looked for. */
const MAX_SWEEP_MS = 5_000;

/** The gRPC server: Triton's service, the health check and server reflection. It does not listen yet. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { services, settings, restrictions = NO_RESTRICTIONS } = options;
  const { clock } = services;
  const methods = createMethods(services, settings);
  const categories = categoriesOf(methods);
  const gate = new CallGate({
    limits: {
      maxMessageBytes: settings.maxMessageBytes,
      receiveTimeoutMs: settings.receiveTimeoutMs,
      sendTimeoutMs: settings.sendTimeoutMs,
      admission: services.admission,
      now: () => clock.now(),
    },
    maxOpenCalls: settings.maxOpenCalls,
    restrictions,
    tenants: services.tenants,
    categoryOf: (path) => categories.get(path) ?? 'metadata',
    compression: settings.inferResponseCompression,
  });
  const server = new Server({
    'grpc.max_receive_message_length': settings.maxMessageBytes,
    'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
    'grpc.max_concurrent_streams': settings.maxStreamsPerConnection,
    'grpc.keepalive_time_ms': settings.keepaliveTimeMs,
    'grpc.keepalive_timeout_ms': settings.keepaliveTimeoutMs,
    ...ageOptions(settings),
    'grpc.enable_channelz': 0,
    interceptors: [gate.intercept],
  });
  for (const { definition, handle } of methods) {
    server.addService({ [definition.path]: definition }, { [definition.path]: handle });
  }
  const connections = server.createConnectionInjector(ServerCredentials.createInsecure());
  const http2 = http2ServerOf(server);
  gate.attach(http2);
  http2.on('session', widenWindows);
  const sweepMs = Math.min(MAX_SWEEP_MS, settings.receiveTimeoutMs / 2);
  const sweep = setInterval(() => gate.endStalledCalls(), sweepMs);
  sweep.unref();
  let listener: Listener | undefined;
  return {
    async listen(host, port) {
      listener = await listen(host, port, settings.maxConnections, (socket) => connections.injectConnection(socket));
      return listener.port;
    },
    async close(graceMs) {
      listener?.close();
      const drained = gate.drain();
      connections.drain(graceMs);
      await within(drained, graceMs);
      clearInterval(sweep);
      server.forceShutdown();
    },
  };
}

function ageOptions({ maxConnectionAgeMs: age, maxConnectionAgeGraceMs: grace }: GrpcSettings): ServerOptions {
  return {
    ...(age > 0 ? { 'grpc.max_connection_age_ms': age } : {}),
    ...(grace > 0 ? { 'grpc.max_connection_age_grace_ms': grace } : {}),
  };
}

/**
 * The HTTP/2 server that grpc-js made for the injector. It is private there, yet nothing else shows a call's headers and
 * stream before the call is made of them, and no option of the server widens its windows.
 */
function http2ServerOf(server: Server): Http2Server {
  const { http2Servers } = server as unknown as { http2Servers?: unknown };
  const [http2] = http2Servers instanceof Map ? [...(http2Servers as Map<unknown, unknown>).keys()] : [];
  if (isHttp2Server(http2)) return http2;
  throw new InferError('INTERNAL', 'this version of @grpc/grpc-js does not show its HTTP/2 server');
}

function isHttp2Server(value: unknown): value is Http2Server {
  return typeof value === 'object' && value !== null && 'prependListener' in value && 'setTimeout' in value;
}

function widenWindows(session: ServerHttp2Session): void {
  session.settings({ initialWindowSize: WINDOW_BYTES });
  session.setLocalWindowSize(WINDOW_BYTES);
}

async function within(done: Promise<void>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([done, new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)))]);
  clearTimeout(timer);
}
