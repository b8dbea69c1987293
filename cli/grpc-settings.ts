import { DEFAULT_GRPC_SETTINGS, type GrpcSettings } from '../producer/facade/triton-grpc/grpc-settings.ts';
import type { Settings } from './flags/catalogue.ts';

/** The length of a gRPC message, whatever is allowed. */
const MAX_MESSAGE_BYTES = 2 ** 31 - 1;

/** The gRPC server's limits from the command line; what has no option keeps its default. */
export function grpcSettingsOf(settings: Settings<'producer'> | Settings<'serve'>): GrpcSettings {
  return {
    ...DEFAULT_GRPC_SETTINGS,
    maxMessageBytes: Math.min(settings.maxRequestBytes, MAX_MESSAGE_BYTES),
    inferResponseCompression: settings.grpcInferResponseCompressionLevel,
    keepaliveTimeMs: settings.grpcKeepaliveTime,
    keepaliveTimeoutMs: settings.grpcKeepaliveTimeout,
    maxConnectionAgeMs: settings.grpcMaxConnectionAge,
    maxConnectionAgeGraceMs: settings.grpcMaxConnectionAgeGrace,
    maxOpenCalls: Math.max(DEFAULT_GRPC_SETTINGS.maxOpenCalls, 2 * settings.maxInflightRequests),
  };
}
