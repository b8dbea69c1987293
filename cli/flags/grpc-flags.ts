import type { Flag } from './flag.ts';
import { PORT } from './port.ts';

/** Of gRPC. */
export const GRPC_FLAGS = {
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
} as const satisfies Record<string, Flag>;
