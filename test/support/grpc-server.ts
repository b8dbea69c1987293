import {
  create,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Client, type ClientOptions, credentials, Metadata, type ServiceError, type StatusObject } from '@grpc/grpc-js';
import { DEFAULT_GRPC_SETTINGS, type GrpcSettings } from '../../producer/facade/triton-grpc/grpc-settings.ts';
import { createGrpcServer, type GrpcServer } from '../../producer/facade/triton-grpc/server.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../producer/http/http-settings.ts';
import { LogSettings, DEFAULT_LOG_VALUES } from '../../producer/service/log-settings.ts';
import type { Restrictions } from '../../producer/service/restricted-access.ts';
import type { Tenants } from '../../producer/service/tenants/tenants.ts';
import { createServices, type Services } from '../../producer/service/services.ts';
import { type LogKinds, type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import type { FakeDispatcher } from './fake-dispatcher.ts';

export interface GrpcServerSetup {
  readonly settings?: Partial<GrpcSettings>;
  readonly maxBytesInFlight?: number;
  readonly restrictions?: Restrictions;
  readonly tenants?: Tenants;
  readonly logger?: Logger;
}

export interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

/** A whole gRPC server over a fake dispatcher, listening on a free port, and what tests do with it. */
export class TestGrpcServer {
  readonly services: Services;
  readonly port: number;
  /** What the log settings told the logger. */
  readonly logKinds: LogKinds[];
  readonly #server: GrpcServer;
  readonly #clients: Client[] = [];

  private constructor(services: Services, server: GrpcServer, port: number, logKinds: LogKinds[]) {
    this.services = services;
    this.#server = server;
    this.port = port;
    this.logKinds = logKinds;
  }

  static async start(dispatcher: FakeDispatcher, setup: GrpcServerSetup = {}): Promise<TestGrpcServer> {
    const logKinds: LogKinds[] = [];
    const { maxBytesInFlight = DEFAULT_HTTP_SETTINGS.maxBytesInFlight, restrictions } = setup;
    const services = createServices({
      dispatcher,
      settings: { ...DEFAULT_HTTP_SETTINGS, maxBytesInFlight },
      logger: setup.logger ?? silentLogger,
      logSettings: new LogSettings(DEFAULT_LOG_VALUES, (kinds) => logKinds.push(kinds)),
      version: '0.0.0-test',
      tenants: setup.tenants,
    });
    const settings = { ...DEFAULT_GRPC_SETTINGS, ...setup.settings };
    const server = createGrpcServer({ services, settings, ...(restrictions ? { restrictions } : {}) });
    return new TestGrpcServer(services, server, await server.listen('127.0.0.1', 0), logKinds);
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.#server.close(0);
    this.services.sharedMemory.close();
  }

  close(graceMs: number): Promise<void> {
    return this.#server.close(graceMs);
  }

  /** A client on a connection of its own, closed by `stop`. */
  client(options: ClientOptions = {}): GrpcTestClient {
    const client = connectGrpc(`127.0.0.1:${this.port}`, options);
    this.#clients.push(client.raw);
    return client;
  }
}

/** A client on a connection of its own, to be closed by the caller. */
export function connectGrpc(address: string, options: ClientOptions = {}): GrpcTestClient {
  return new GrpcTestClient(
    new Client(address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': -1,
      'grpc.max_send_message_length': -1,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_retries': 0,
      ...options,
    }),
  );
}

export class GrpcTestClient {
  readonly raw: Client;

  constructor(raw: Client) {
    this.raw = raw;
  }

  /** The answer of a unary method; rejects with grpc-js' error. */
  async call<M extends DescMethod>(
    method: M,
    request: MessageInitShape<M['input']>,
    options: CallOptions = {},
  ): Promise<MessageShape<M['output']>> {
    const input: DescMethod['input'] = method.input;
    const bytes = await this.send(
      pathOf(method),
      toBinary(input, create(input, request as Record<string, unknown>)),
      options,
    );
    return fromBinary(method.output, bytes) as MessageShape<M['output']>;
  }

  /** The bytes of the answer to a message of bytes. */
  send(path: string, bytes: Uint8Array, { headers = {}, timeoutMs }: CallOptions = {}): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.raw.makeUnaryRequest(
        path,
        (message: Uint8Array) => Buffer.from(message),
        (message: Buffer) => message,
        bytes,
        metadataOf(headers),
        timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
        (error, value) => (error ? reject(error) : value ? resolve(value) : reject(new Error('no answer'))),
      );
    });
  }

  /** A stream of one method; `next` resolves with the next answer, and rejects when the stream ends without one. */
  stream<M extends DescMethod>(method: M, headers: Readonly<Record<string, string>> = {}, path = pathOf(method)) {
    const call = this.raw.makeBidiStreamRequest(
      path,
      (message: MessageInitShape<M['input']>) => {
        const input: DescMethod['input'] = method.input;
        return Buffer.from(toBinary(input, create(input, message as Record<string, unknown>)));
      },
      (bytes: Buffer) => fromBinary(method.output, bytes) as MessageShape<M['output']>,
      metadataOf(headers),
    );
    const answers = call[Symbol.asyncIterator]();
    call.on('error', () => undefined); // the status tells
    const status = new Promise<StatusObject>((resolve) => call.once('status', resolve));
    return {
      status,
      send: (message: MessageInitShape<M['input']>) => void call.write(message),
      next: async () => {
        const { done, value } = (await answers.next()) as IteratorResult<MessageShape<M['output']>, undefined>;
        if (done) throw new Error('the stream has ended');
        return value;
      },
      end: () => call.end(),
      cancel: () => call.cancel(),
    };
  }
}

export function pathOf({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}

/** The status that a call ended with. */
export async function refusalOf(answer: Promise<unknown>): Promise<ServiceError> {
  try {
    await answer;
  } catch (error) {
    return error as ServiceError;
  }
  throw new Error('the call was answered');
}

function metadataOf(headers: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  return metadata;
}
