import type { InferResponse } from '../../../shared/infer/response.ts';

/** The figures of a store, for metrics. */
export interface StoreFigures {
  /** undefined for a store that others share. */
  readonly held: { readonly entries: number; readonly bytes: number } | undefined;
  /** Lookups and writes that the store could not do. */
  readonly failures: number;
}

/**
 * Keeps answers by the key of their request. What goes in is copied before `put` returns, and what comes out is memory that
 * nobody else has.
 */
export interface ResponseStore {
  /** Never rejects: a store in trouble has nothing. */
  get(key: string): InferResponse | undefined | Promise<InferResponse | undefined>;
  put(key: string, response: InferResponse): void;
  figures(): StoreFigures;
  close(): Promise<void>;
}
