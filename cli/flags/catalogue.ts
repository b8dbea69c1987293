import { availableParallelism } from 'node:os';
import type { Flag } from './flag.ts';

const MiB = 1024 * 1024;
const PORT = { type: 'integer', value: 'PORT', min: 0, max: 65_535 } as const;

/** Every option of every command. One row here is also the row of the README's table (checked by a test). */
export const FLAGS = {
  modelRepository: {
    name: 'model-repository',
    aliases: ['model-store'],
    type: 'string',
    repeatable: true,
    value: 'DIR',
    default: undefined,
    help: 'folder of model folders in Triton’s layout; may be given several times (environment: separated by ":")',
  },
  modelControlMode: {
    name: 'model-control-mode',
    type: 'string',
    value: 'MODE',
    choices: ['none', 'poll', 'explicit'],
    default: 'none',
    help: 'how models come and go: none loads all at start, poll follows the folders, explicit loads and unloads on request',
  },
  loadModel: {
    name: 'load-model',
    type: 'string',
    repeatable: true,
    separator: ',',
    value: 'MODEL',
    default: undefined,
    help: 'with explicit: a model to load at start, * for all; may be given several times (environment: separated by ",")',
  },
  loadOnDemand: {
    name: 'load-on-demand',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    help: 'with explicit: whether a request for a model that is not loaded loads it and waits for it',
  },
  modelMemoryBytes: {
    name: 'model-memory-bytes',
    type: 'integer',
    value: 'BYTES',
    min: 0,
    default: 0,
    help: 'bytes of model files that may be loaded at once; models loaded on demand make room, 0 for any number',
  },
  repositoryPollSecs: {
    name: 'repository-poll-secs',
    type: 'integer',
    value: 'SECONDS',
    min: 1,
    default: 15,
    help: 'with poll: how often the folders are looked at',
  },
  strictModelConfig: {
    name: 'strict-model-config',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    help: 'older name of --disable-auto-complete-config',
  },
  disableAutoCompleteConfig: {
    name: 'disable-auto-complete-config',
    type: 'boolean',
    value: 'BOOL',
    default: false,
    help: 'whether config.pbtxt has to say everything; else what it leaves out is completed from the model file',
  },
  modelConfigName: {
    name: 'model-config-name',
    type: 'string',
    value: 'NAME',
    default: undefined,
    help: 'configs/NAME.pbtxt of a model is read instead of config.pbtxt, where it is there',
  },
  exitOnError: {
    name: 'exit-on-error',
    type: 'boolean',
    value: 'BOOL',
    default: true,
    help: 'leave with an error when a model cannot be loaded at start; false serves the others',
  },
  onnxruntimeApi: {
    name: 'onnxruntime-api',
    type: 'string',
    value: 'NAME',
    choices: ['c', 'binding'],
    default: 'c',
    help: 'how ONNX Runtime is called: its C API, or the npm package’s binding in a thread per instance',
  },
  backendConfig: {
    name: 'backend-config',
    type: 'string',
    repeatable: true,
    separator: '\n',
    value: 'SETTING',
    default: undefined,
    help: 'onnxruntime,KEY=VALUE: default-max-batch-size, enable-global-threadpool, intra_op_thread_count, inter_op_thread_count; may be given several times (environment: one a line)',
  },
  rateLimit: {
    name: 'rate-limit',
    type: 'string',
    value: 'MODE',
    choices: ['off', 'execution_count'],
    default: 'off',
    help: 'execution_count: an instance runs only while what its rate_limiter names is free, priority n with 1/n of the chances',
  },
  rateLimitResource: {
    name: 'rate-limit-resource',
    type: 'string',
    repeatable: true,
    separator: ',',
    value: 'NAME:COUNT',
    default: undefined,
    help: 'with execution_count: how much there is of a resource; without any, what the hungriest instance takes of each (environment: separated by ",")',
  },
  maxQueueSize: {
    name: 'max-queue-size',
    type: 'integer',
    value: 'REQUESTS',
    min: 1,
    default: 4096,
    help: 'requests that may wait for one model in this process; more are refused',
  },
  allowHttp: {
    name: 'allow-http',
    type: 'boolean',
    value: 'BOOL',
    default: true,
    help: 'whether to serve HTTP',
  },
  httpAddress: {
    name: 'http-address',
    type: 'string',
    value: 'ADDRESS',
    default: '127.0.0.1',
    help: 'address to listen on for HTTP; 0.0.0.0 for all',
  },
  httpPort: { ...PORT, name: 'http-port', default: 8000, help: 'port for HTTP; 0 takes a free one' },
  maxRequestBytes: {
    name: 'max-request-bytes',
    type: 'integer',
    value: 'BYTES',
    min: 1024,
    default: 512 * MiB,
    help: 'largest request body',
  },
  maxInflightRequests: {
    name: 'max-inflight-requests',
    type: 'integer',
    value: 'REQUESTS',
    min: 1,
    default: 8192,
    help: 'requests in hand at once; more are refused with 429',
  },
  maxInflightBytes: {
    name: 'max-inflight-bytes',
    type: 'integer',
    value: 'BYTES',
    min: 1024,
    default: 1024 * MiB,
    help: 'bytes of tensors in hand at once; more are refused with 429',
  },
  requestTimeoutMs: {
    name: 'request-timeout-ms',
    type: 'integer',
    value: 'MS',
    min: 1,
    default: 60_000,
    help: 'longest time that a request may take, from its arrival to its answer',
  },
  preprocessThreads: {
    name: 'preprocess-threads',
    type: 'integer',
    value: 'COUNT',
    min: 1,
    max: 256,
    default: Math.min(2, availableParallelism()),
    help: 'threads that decode photos and tokenize texts',
  },
  maxImagePixels: {
    name: 'max-image-pixels',
    type: 'integer',
    value: 'PIXELS',
    min: 1,
    default: 50_000_000,
    help: 'largest photo, width times height, checked before it is decoded',
  },
  cacheConfig: {
    name: 'cache-config',
    type: 'string',
    repeatable: true,
    separator: '\n',
    value: 'CONFIG',
    default: undefined,
    help: 'keeps answers of models with response_cache: local,size=BYTES or redis,host=HOST,port=PORT; may be given several times (environment: one a line)',
  },
  allowClientShm: {
    name: 'allow-client-shm',
    type: 'boolean',
    value: 'BOOL',
    default: undefined,
    help: 'whether clients may register shared memory; unless given, they may when all ports are on loopback',
  },
  id: {
    name: 'id',
    type: 'string',
    value: 'NAME',
    default: 'millrace',
    help: 'name of the server in its metadata; clients that insist on Triton’s own take triton',
  },
  strictReadiness: {
    name: 'strict-readiness',
    type: 'boolean',
    value: 'BOOL',
    default: true,
    help: 'whether the server is only ready while all its models are; false looks at the server alone',
  },
  httpRestrictedApi: {
    name: 'http-restricted-api',
    type: 'string',
    repeatable: true,
    separator: '\n',
    value: 'RULE',
    default: undefined,
    help: 'CATEGORY,…:HEADER=VALUE: only clients that send the header may make these calls (environment: one a line)',
  },
  allowGrpc: {
    name: 'allow-grpc',
    type: 'boolean',
    value: 'BOOL',
    default: true,
    help: 'whether to serve gRPC',
  },
  grpcAddress: {
    name: 'grpc-address',
    type: 'string',
    value: 'ADDRESS',
    default: '127.0.0.1',
    help: 'address to listen on for gRPC; 0.0.0.0 for all',
  },
  grpcPort: { ...PORT, name: 'grpc-port', default: 8001, help: 'port for gRPC; 0 takes a free one' },
  grpcKeepaliveTime: {
    name: 'grpc-keepalive-time',
    type: 'integer',
    value: 'MS',
    min: 1000,
    max: 2 ** 31 - 1,
    default: 7_200_000,
    help: 'silence on a gRPC connection after which its client is asked for a sign of life',
  },
  grpcKeepaliveTimeout: {
    name: 'grpc-keepalive-timeout',
    type: 'integer',
    value: 'MS',
    min: 1000,
    max: 2 ** 31 - 1,
    default: 20_000,
    help: 'time for that sign; without it the connection is closed',
  },
  grpcMaxConnectionAge: {
    name: 'grpc-max-connection-age',
    type: 'integer',
    value: 'MS',
    min: 0,
    max: 2 ** 31 - 1,
    default: 0,
    help: 'after which a gRPC connection takes no new calls, so that clients spread over servers; 0 for never',
  },
  grpcMaxConnectionAgeGrace: {
    name: 'grpc-max-connection-age-grace',
    type: 'integer',
    value: 'MS',
    min: 0,
    max: 2 ** 31 - 1,
    default: 0,
    help: 'for the calls that are then under way; 0 waits for them',
  },
  grpcInferResponseCompressionLevel: {
    name: 'grpc-infer-response-compression-level',
    type: 'string',
    value: 'LEVEL',
    choices: ['none', 'low', 'medium', 'high'],
    default: 'none',
    help: 'how hard answers of inference over gRPC are compressed, for clients that take gzip',
  },
  grpcRestrictedProtocol: {
    name: 'grpc-restricted-protocol',
    type: 'string',
    repeatable: true,
    separator: '\n',
    value: 'RULE',
    default: undefined,
    help: 'the same for gRPC, where the header is triton-grpc-protocol-HEADER',
  },
  metricsAddress: {
    name: 'metrics-address',
    type: 'string',
    value: 'ADDRESS',
    default: '127.0.0.1',
    help: 'address to listen on for Prometheus',
  },
  metricsPort: { ...PORT, name: 'metrics-port', default: 8002, help: 'port for Prometheus; 0 takes a free one' },
  allowMetrics: {
    name: 'allow-metrics',
    type: 'boolean',
    value: 'BOOL',
    default: true,
    help: 'whether to serve metrics',
  },
  metricsConfig: {
    name: 'metrics-config',
    type: 'string',
    repeatable: true,
    separator: ',',
    value: 'SETTING',
    default: undefined,
    help: 'histogram_latencies=true also shows how long first responses took; may be given several times (environment: separated by ",")',
  },
  redis: {
    name: 'redis',
    type: 'string',
    value: 'URL',
    env: 'REDIS_URL',
    default: 'redis://127.0.0.1:6379',
    help: 'the Redis that holds the queue; its maxmemory-policy must be noeviction',
  },
  dashboardToken: {
    name: 'dashboard-token',
    type: 'string',
    value: 'TOKEN',
    default: undefined,
    help: 'token for the Bull dashboard; needed as soon as HTTP listens beyond loopback',
  },
  exitTimeoutSecs: {
    name: 'exit-timeout-secs',
    type: 'integer',
    value: 'SECONDS',
    min: 0,
    default: 30,
    help: 'longest time to finish requests in hand after SIGTERM or SIGINT',
  },
  logVerbose: {
    name: 'log-verbose',
    type: 'integer',
    value: 'LEVEL',
    min: 0,
    default: 0,
    help: '1 and more log details',
  },
  logInfo: { name: 'log-info', type: 'boolean', value: 'BOOL', default: true, help: 'whether to log information' },
  logWarning: { name: 'log-warning', type: 'boolean', value: 'BOOL', default: true, help: 'whether to log warnings' },
  logError: { name: 'log-error', type: 'boolean', value: 'BOOL', default: true, help: 'whether to log errors' },
} as const satisfies Record<string, Flag>;

export type FlagKey = keyof typeof FLAGS;

const MODELS = [
  'modelRepository',
  'modelControlMode',
  'loadModel',
  'loadOnDemand',
  'modelMemoryBytes',
  'repositoryPollSecs',
  'strictModelConfig',
  'disableAutoCompleteConfig',
  'modelConfigName',
  'exitOnError',
  'onnxruntimeApi',
  'backendConfig',
  'rateLimit',
  'rateLimitResource',
  'maxQueueSize',
] as const;
const HTTP = [
  'allowHttp',
  'httpAddress',
  'httpPort',
  'maxRequestBytes',
  'maxInflightRequests',
  'maxInflightBytes',
  'requestTimeoutMs',
  'preprocessThreads',
  'maxImagePixels',
  'cacheConfig',
  'allowClientShm',
  'strictReadiness',
  'id',
  'httpRestrictedApi',
] as const;
const GRPC = [
  'allowGrpc',
  'grpcAddress',
  'grpcPort',
  'grpcKeepaliveTime',
  'grpcKeepaliveTimeout',
  'grpcMaxConnectionAge',
  'grpcMaxConnectionAgeGrace',
  'grpcInferResponseCompressionLevel',
  'grpcRestrictedProtocol',
] as const;
const PROCESS = [
  'metricsAddress',
  'metricsPort',
  'allowMetrics',
  'metricsConfig',
  'exitTimeoutSecs',
  'logVerbose',
  'logInfo',
  'logWarning',
  'logError',
] as const;

/** Which options each command takes, in the order of its `--help`. */
export const COMMAND_FLAGS = {
  serve: [...MODELS, ...HTTP, ...GRPC, ...PROCESS],
  producer: ['redis', ...HTTP, ...GRPC, 'dashboardToken', ...PROCESS],
  worker: ['redis', ...MODELS, ...PROCESS],
} as const satisfies Record<string, readonly FlagKey[]>;

export type CommandName = keyof typeof COMMAND_FLAGS;

/** The type of an option's value once it is parsed. */
export type ValueOf<F> = F extends { repeatable: true }
  ? readonly string[]
  : F extends { type: 'integer' }
    ? number
    : F extends { type: 'boolean' }
      ? F extends { default: undefined }
        ? boolean | undefined
        : boolean
      : F extends { choices: readonly (infer C)[] }
        ? C
        : F extends { default: undefined }
          ? string | undefined
          : string;

/** The parsed options of a command: every key is there, defaults filled in. */
export type Settings<C extends CommandName> = {
  readonly [K in (typeof COMMAND_FLAGS)[C][number]]: ValueOf<(typeof FLAGS)[K]>;
};
