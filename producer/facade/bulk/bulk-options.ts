import { assertKnown, type Query, readChoice, readWhole } from '../jobs/job-options.ts';
import { InferError } from '../../../shared/errors.ts';

export interface BulkOptions {
  /** Rows that may be in hand at one time. */
  readonly concurrency: number;
  /** In the order of the input rather than as they are done. */
  readonly inOrder: boolean;
  /** Whether to tell once a second how far it is. */
  readonly progress: boolean;
}

const DEFAULT_CONCURRENCY = 16;
const MAX_CONCURRENCY = 64;

/** @throws InferError INVALID_ARGUMENT */
export function readBulkOptions(query: Query): BulkOptions {
  assertKnown(query, ['concurrency', 'order', 'progress']);
  const concurrency = readWhole(query, 'concurrency') ?? DEFAULT_CONCURRENCY;
  if (concurrency < 1 || concurrency > MAX_CONCURRENCY) {
    const expected = `a whole number from 1 to ${MAX_CONCURRENCY}`;
    throw new InferError('INVALID_ARGUMENT', `concurrency must be ${expected}, got ${concurrency}`);
  }
  return {
    concurrency,
    inOrder: readChoice(query, 'order', ['done', 'input']) === 'input',
    progress: readChoice(query, 'progress', ['false', 'true']) === 'true',
  };
}
