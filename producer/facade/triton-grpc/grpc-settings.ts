/** How hard answers of inference calls are compressed; `none` sends them as they are. */
export const COMPRESSION_LEVELS = ['none', 'low', 'medium', 'high'] as const;

export type CompressionLevel = (typeof COMPRESSION_LEVELS)[number];

/** Limits of the gRPC server. Times in ms, sizes in bytes. */
export interface GrpcSettings {
  /** Largest message of a client, as sent and as inflated. */
  readonly maxMessageBytes: number;
  readonly inferResponseCompression: CompressionLevel;
  /** Silence after which a client is asked for a sign of life. */
  readonly keepaliveTimeMs: number;
  /** How long it may take to give one. */
  readonly keepaliveTimeoutMs: number;
  /** After which a connection takes no new calls; 0 for never. */
  readonly maxConnectionAgeMs: number;
  /** For the calls that are then under way; 0 waits for them. */
  readonly maxConnectionAgeGraceMs: number;
  /** Until a message that has begun is complete, and until a unary call has brought its message. */
  readonly receiveTimeoutMs: number;
  /** How long a client that reads an answer may make no progress. */
  readonly sendTimeoutMs: number;
  /** Connections at once; more are closed as they come. */
  readonly maxConnections: number;
  /** Calls at once on one connection; a client waits with more. */
  readonly maxStreamsPerConnection: number;
  /** Open calls at once, idle streams among them; more are refused. */
  readonly maxOpenCalls: number;
}

export const DEFAULT_GRPC_SETTINGS: GrpcSettings = Object.freeze({
  maxMessageBytes: 512 * 1024 * 1024,
  inferResponseCompression: 'none',
  keepaliveTimeMs: 7_200_000,
  keepaliveTimeoutMs: 20_000,
  maxConnectionAgeMs: 0,
  maxConnectionAgeGraceMs: 0,
  receiveTimeoutMs: 120_000,
  sendTimeoutMs: 60_000,
  maxConnections: 1024,
  maxStreamsPerConnection: 4096,
  maxOpenCalls: 16_384,
});
