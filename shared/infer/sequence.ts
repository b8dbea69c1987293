import { InferError } from '../errors.ts';
import { shownText } from '../tensor/text.ts';
import type { InferRequest, Parameters } from './request.ts';

/** What a request says of the sequence that it belongs to. */
export interface SequencePart {
  /** Which sequence; a number and a text never name the same one. */
  readonly key: string;
  /** As a client wrote it: 64 bits, or a text that is not empty. */
  readonly id: bigint | string;
  /** The sequence begins with this request, whatever came before under its id. */
  readonly start: boolean;
  /** The last request of the sequence. */
  readonly end: boolean;
}

/** As in Triton. */
const MAX_ID_BYTES = 128;
const MAX_UINT64 = 2n ** 64n - 1n;

/**
 * The sequence that a request for a model with sequence batching belongs to.
 * @throws InferError INVALID_ARGUMENT when it names none, or one that cannot be.
 */
export function sequencePartOf({ model, parameters }: Pick<InferRequest, 'model' | 'parameters'>): SequencePart {
  const id = idOf(model, own(parameters, 'sequence_id'));
  return {
    key: typeof id === 'string' ? `s${id}` : `n${id.toString()}`,
    id,
    start: own(parameters, 'sequence_start') === true,
    end: own(parameters, 'sequence_end') === true,
  };
}

/** A request without START for a sequence that nobody knows. */
export function notStarted(model: string, { id }: Pick<SequencePart, 'id'>): InferError {
  const which = `inference request for sequence ${shownId(id)} to model '${model}'`;
  const why = 'no such sequence is live: it was never started, has ended, or was idle for too long';
  return new InferError(
    'INVALID_ARGUMENT',
    `${which} must specify the START flag on the first request of the sequence (${why})`,
  );
}

/** A sequence that had begun and whose state is gone. */
export function sequenceLost(model: string, { id }: Pick<SequencePart, 'id'>, why: string): InferError {
  const text = `sequence ${shownId(id)} of model '${model}' was lost: ${why}; it must be started again, with the START flag`;
  return new InferError('UNAVAILABLE', text);
}

export function shownId(id: bigint | string): string {
  return typeof id === 'string' ? shownText(id) : id.toString();
}

/** A parameter may be called like a property that every object has. */
function own(parameters: Parameters, name: string): Parameters[string] | undefined {
  return Object.hasOwn(parameters, name) ? parameters[name] : undefined;
}

function idOf(model: string, given: Parameters[string] | undefined): bigint | string {
  if (typeof given === 'string' && given !== '') {
    const byteLength = Buffer.byteLength(given);
    if (byteLength <= MAX_ID_BYTES) return given;
    const expected = `a sequence_id of at most ${MAX_ID_BYTES} bytes`;
    throw invalid(model, `expected ${expected}, got ${byteLength}`);
  }
  if (given === undefined || given === '' || given === 0 || given === 0n) {
    throw invalid(model, 'must specify a non-zero or non-empty correlation ID (parameter sequence_id)');
  }
  if (typeof given === 'bigint' && given > 0n && given <= MAX_UINT64) return given;
  if (typeof given === 'number' && Number.isSafeInteger(given) && given > 0) return BigInt(given);
  throw invalid(model, `expected a sequence_id from 1 to 2^64 - 1 or a text, got ${String(given)}`);
}

function invalid(model: string, what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `inference request to model '${model}': ${what}`);
}
