import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  Client,
  type ClientDuplexStream,
  credentials,
  type Metadata,
  Metadata as GrpcMetadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { DEFAULT_GRPC_SETTINGS, type GrpcSettings } from '../../producer/facade/triton-grpc/grpc-settings.ts';
import { createGrpcServer, type GrpcServer } from '../../producer/facade/triton-grpc/server.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../producer/http/http-settings.ts';
import type { AdmissionSettings } from '../../producer/service/admission.ts';
import { createServices, type MeasuredDispatcher, type Services } from '../../producer/service/services.ts';
import {
  GRPCInferenceService,
  type ModelInferRequest,
  ModelInferRequestSchema,
  type ModelInferResponse,
  ModelInferResponseSchema,
  type ModelStreamInferResponse,
  ModelStreamInferResponseSchema,
} from '../../shared/proto/generated/grpc_service_pb.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';

export type RequestInit = MessageInitShape<typeof ModelInferRequestSchema>;

const PATH = `/${GRPCInferenceService.typeName}/`;
const OPTIONS = {
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc-node.flow_control_window': 4 * 1024 * 1024,
};

export type InferSettings = Partial<GrpcSettings & AdmissionSettings>;

/** A server over any dispatcher, and a client of its two infer methods. */
export class GrpcInferServer {
  readonly services: Services;
  readonly #server: GrpcServer;
  readonly #client: Client;

  private constructor(services: Services, server: GrpcServer, client: Client) {
    this.services = services;
    this.#server = server;
    this.#client = client;
  }

  static async start(dispatcher: MeasuredDispatcher, settings: InferSettings = {}): Promise<GrpcInferServer> {
    const services = createServices({
      dispatcher,
      settings: { ...DEFAULT_HTTP_SETTINGS, allowClientShm: true, ...settings },
      logger: silentLogger,
      version: '0.0.0-test',
    });
    const server = createGrpcServer({ services, settings: { ...DEFAULT_GRPC_SETTINGS, ...settings } });
    const port = await server.listen('127.0.0.1', 0);
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), OPTIONS);
    return new GrpcInferServer(services, server, client);
  }

  async stop(): Promise<void> {
    this.#client.close();
    await this.#server.close(0);
    this.services.sharedMemory.close();
  }

  /** The answer; rejects with grpc-js' error. */
  infer(request: RequestInit, options: { headers?: Record<string, string>; timeoutMs?: number } = {}) {
    return this.call(toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request)), options).answer;
  }

  /** Sends bytes as one message. */
  call(
    bytes: Uint8Array,
    { headers = {}, timeoutMs }: { headers?: Record<string, string>; timeoutMs?: number } = {},
  ): { answer: Promise<ModelInferResponse>; cancel: () => void } {
    let cancel: () => void = () => undefined;
    const answer = new Promise<ModelInferResponse>((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        `${PATH}ModelInfer`,
        (message: Uint8Array) => Buffer.from(message),
        (message: Buffer) => fromBinary(ModelInferResponseSchema, message),
        bytes,
        metadataOf(headers),
        timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
        (error, value) => (error ? reject(error) : value ? resolve(value) : reject(new Error('no answer'))),
      );
      cancel = () => call.cancel();
    });
    return { answer, cancel };
  }

  /** The error of a request that must be refused. */
  async refusal(
    request: RequestInit | Uint8Array,
    options?: { headers?: Record<string, string> },
  ): Promise<ServiceError> {
    const bytes =
      request instanceof Uint8Array
        ? request
        : toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request));
    const { answer } = this.call(bytes, options);
    return answer.then(
      (value) => Promise.reject(new Error(`answered instead of refused: ${value.modelName}`)),
      (error: unknown) => error as ServiceError,
    );
  }

  stream(options: { headers?: Record<string, string>; timeoutMs?: number } = {}): TestStream {
    const call: ClientDuplexStream<Uint8Array, ModelStreamInferResponse> = this.#client.makeBidiStreamRequest(
      `${PATH}ModelStreamInfer`,
      (message: Uint8Array) => Buffer.from(message),
      (message: Buffer) => fromBinary(ModelStreamInferResponseSchema, message),
      metadataOf(options.headers ?? {}),
      options.timeoutMs === undefined ? {} : { deadline: Date.now() + options.timeoutMs },
    );
    return new TestStream(call);
  }
}

/** A ModelStreamInfer as a client sees it. */
export class TestStream {
  readonly call: ClientDuplexStream<Uint8Array, ModelStreamInferResponse>;
  readonly #answers: ModelStreamInferResponse[] = [];
  readonly #waiting: ((answer: ModelStreamInferResponse) => void)[] = [];
  /** The status that the stream ended with. */
  readonly status: Promise<{ code: number; details: string }>;

  constructor(call: ClientDuplexStream<Uint8Array, ModelStreamInferResponse>) {
    this.call = call;
    this.status = new Promise((resolve) => call.once('status', resolve));
    call.on('error', () => undefined); // the status says the same
    call.on('data', (answer: ModelStreamInferResponse) => {
      const waiter = this.#waiting.shift();
      if (waiter) waiter(answer);
      else this.#answers.push(answer);
    });
  }

  send(request: RequestInit | Uint8Array): void {
    const isBytes = request instanceof Uint8Array;
    this.call.write(isBytes ? request : toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request)));
  }

  next(): Promise<ModelStreamInferResponse> {
    const answer = this.#answers.shift();
    return answer ? Promise.resolve(answer) : new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** How many answers came that nobody asked for. */
  get unread(): number {
    return this.#answers.length;
  }
}

function metadataOf(headers: Record<string, string>): Metadata {
  const metadata = new GrpcMetadata();
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
  return metadata;
}

/** A request of raw tensors. */
export function rawRequest(
  modelName: string,
  inputs: readonly { name: string; datatype: string; shape: readonly number[]; data: Uint8Array }[],
  more: Omit<RequestInit, '$typeName'> = {},
): RequestInit {
  return {
    modelName,
    inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: shape.map(BigInt) })),
    rawInputContents: inputs.map(({ data }) => data),
    ...more,
  };
}

export function floats(...values: number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}

export function encodeRequest(request: RequestInit): Uint8Array {
  return toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, request));
}

export type { ModelInferRequest };
