import type { ServiceSettings } from '../service/services.ts';

/** Limits of the HTTP server. Times in ms, sizes in bytes. */
export interface HttpSettings extends ServiceSettings {
  /** Largest request body of any kind. */
  readonly maxBodyBytes: number;
  /** Largest JSON part of an infer request; binary tensors behind it do not count. */
  readonly maxJsonBytes: number;
  /** Until the headers of a request are complete. */
  readonly headersTimeoutMs: number;
  /** Until a request is complete, body included. */
  readonly receiveTimeoutMs: number;
  /** How long a client that reads its answer may make no progress. */
  readonly sendTimeoutMs: number;
  /** How long an idle connection is kept. */
  readonly keepAliveTimeoutMs: number;
  /** How long `close` waits for requests under way before it cuts their connections. */
  readonly drainTimeoutMs: number;
}

export const DEFAULT_HTTP_SETTINGS: HttpSettings = Object.freeze({
  maxBodyBytes: 512 * 1024 * 1024,
  maxJsonBytes: 64 * 1024 * 1024,
  headersTimeoutMs: 15_000,
  receiveTimeoutMs: 120_000,
  sendTimeoutMs: 60_000,
  keepAliveTimeoutMs: 75_000,
  requestTimeoutMs: 60_000,
  drainTimeoutMs: 30_000,
  maxRequestsInFlight: 10_000,
  maxBytesInFlight: 2 * 1024 * 1024 * 1024,
  maxOpenJobs: 10_000,
  allowClientShm: false,
  strictReadiness: true,
  serverId: 'millrace',
});
