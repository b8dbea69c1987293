import type { TenantParty } from '../limits/limits.ts';

/** Somebody who may send requests, known by keys of its own. */
export interface Tenant {
  readonly name: string;
  /** Hashes of its keys: SHA-256 in lower-case hex. The keys themselves are written nowhere. */
  readonly keyHashes: readonly string[];
  /** Its quota. */
  readonly party: TenantParty;
  /** Jobs that it may have open; 0 for its share of all. */
  readonly maxJobs: number;
  /** Bytes of their tensors; 0 for any number. */
  readonly maxJobBytes: number;
  /** The models that it may call and look at; undefined for all. */
  readonly models: ReadonlySet<string> | undefined;
}

/** More would be more series of metrics than anybody looks at. */
export const MAX_TENANTS = 1000;
