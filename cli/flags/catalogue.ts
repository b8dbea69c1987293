import { GRPC_FLAGS } from './grpc-flags.ts';
import { HTTP_FLAGS } from './http-flags.ts';
import { PROCESS_FLAGS } from './process-flags.ts';
import { SERVING_FLAGS } from './serving-flags.ts';

/** Every option of every command. One row here is also the row of the README's table (checked by a test). */
export const FLAGS = { ...SERVING_FLAGS, ...HTTP_FLAGS, ...GRPC_FLAGS, ...PROCESS_FLAGS };

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
  'gpuDir',
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
  'maxOpenJobs',
  'webhookSecret',
  'webhookAllowPrivate',
  'maxPoolRequests',
  'maxPoolRows',
  'maxPoolBytes',
  'apiKeysFile',
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
const QUEUE = ['redis', 'queueKeyFile', 'queueAcceptUnsigned'] as const;
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
  producer: [
    ...QUEUE,
    ...HTTP,
    ...GRPC,
    'dashboardToken',
    'dashboardReadToken',
    'latencyGoalMs',
    'maxDesiredWorkers',
    ...PROCESS,
  ],
  worker: [...QUEUE, ...MODELS, 'gpus', 'idleExit', 'maxFailuresInRow', 'modelRetentionSecs', ...PROCESS],
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
