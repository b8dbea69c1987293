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
  maxQueueSize: {
    name: 'max-queue-size',
    type: 'integer',
    value: 'REQUESTS',
    min: 1,
    default: 4096,
    help: 'requests that may wait for one model in this process; more are refused',
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
    help: 'longest time that a request may take; a request’s own "timeout" parameter (µs) can only shorten it',
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

const MODELS = ['modelRepository', 'exitOnError', 'onnxruntimeApi', 'maxQueueSize'] as const;
const HTTP = [
  'httpAddress',
  'httpPort',
  'maxRequestBytes',
  'maxInflightRequests',
  'maxInflightBytes',
  'requestTimeoutMs',
  'preprocessThreads',
  'maxImagePixels',
] as const;
const PROCESS = [
  'metricsAddress',
  'metricsPort',
  'allowMetrics',
  'exitTimeoutSecs',
  'logVerbose',
  'logInfo',
  'logWarning',
  'logError',
] as const;

/** Which options each command takes, in the order of its `--help`. */
export const COMMAND_FLAGS = {
  serve: [...MODELS, ...HTTP, ...PROCESS],
  producer: ['redis', ...HTTP, 'dashboardToken', ...PROCESS],
  worker: ['redis', ...MODELS, ...PROCESS],
} as const satisfies Record<string, readonly FlagKey[]>;

export type CommandName = keyof typeof COMMAND_FLAGS;

type ValueOf<F> = F extends { repeatable: true }
  ? readonly string[]
  : F extends { type: 'integer' }
    ? number
    : F extends { type: 'boolean' }
      ? boolean
      : F extends { choices: readonly (infer C)[] }
        ? C
        : F extends { default: undefined }
          ? string | undefined
          : string;

/** The parsed options of a command: every key is there, defaults filled in. */
export type Settings<C extends CommandName> = {
  readonly [K in (typeof COMMAND_FLAGS)[C][number]]: ValueOf<(typeof FLAGS)[K]>;
};
