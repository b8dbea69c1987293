import { InferError } from '../errors.ts';
import type { QueueKeys } from '../wire/queue-keys.ts';
import { sha256Hex } from '../sha256.ts';
import { isJobState, isOver } from './job.ts';
import type { JobEnd } from './job-scripts.ts';

/** The fields of a record as they lie in Redis. */
export type RecordFields = Readonly<Record<string, string | number>>;

/** What a submission says and nobody changes afterwards. */
const SUBMITTED = [
  'model',
  'version',
  'created',
  'due',
  'deadline',
  'keep',
  'priority',
  'attempts',
  'answer',
  'tenant',
  'webhook',
  'sequence',
  'queue',
  'payload',
  'idempotency',
] as const;

/** What a producer adds to the fields of a record that it submits. */
export function signedSubmission(keys: QueueKeys, id: string, fields: RecordFields): RecordFields {
  const { key, mac } = keys.sign('record', id, textOfSubmission(fields));
  return { 'record-key': key, 'record-mac': mac };
}

/** What whoever ends a job adds to its record: the answer itself is told by its hash. */
export function signedEnd(keys: QueueKeys, id: string, { state, error, frame }: JobEnd): Record<string, string> {
  const fields = {
    state,
    ...(error && { code: error.code, message: error.message }),
    'frame-sha256': frame ? sha256Hex(frame) : '',
  };
  const { key, mac } = keys.sign('end', id, textOfEnd(fields));
  return { 'frame-sha256': fields['frame-sha256'], 'end-key': key, 'end-mac': mac };
}

/**
 * Whether its submission is signed; false where that need not be.
 * @throws InferError PERMISSION_DENIED for a record that is not signed as it should be
 */
export function checkRecord(keys: QueueKeys, id: string, fields: RecordFields): boolean {
  const submission = { key: fields['record-key'], mac: fields['record-mac'] };
  const isSigned = keys.check('record', id, textOfSubmission(fields), submission);
  const { state } = fields;
  if (isJobState(state) && isOver(state)) {
    keys.check('end', id, textOfEnd(fields), { key: fields['end-key'], mac: fields['end-mac'] });
  }
  return isSigned;
}

/** Whether this is the answer that the record speaks of, which was checked. @throws InferError PERMISSION_DENIED */
export function checkFrame(keys: QueueKeys, fields: RecordFields, frame: Buffer): void {
  const { state, 'frame-sha256': expected } = fields;
  // Only of a job that is over the end was signed, and the hash with it.
  if (!isJobState(state) || !isOver(state)) throw keys.refuse('end', 'a job that is not over has no answer');
  if (expected === undefined || expected === sha256Hex(frame)) return; // without one it was accepted unsigned
  throw keys.refuse('end', 'the answer of the job is not the one that was signed');
}

/** Said of a record instead of what is wrong with it in particular. */
export function strangeRecord(id: string, cause: unknown): InferError {
  const text = `job '${id}': its record was changed by somebody who may not, so nothing can be said of it`;
  return new InferError('INTERNAL', text, { cause });
}

function textOfSubmission(fields: RecordFields): string {
  return JSON.stringify(SUBMITTED.map((name) => (fields[name] === undefined ? null : String(fields[name]))));
}

function textOfEnd(fields: RecordFields): string {
  const names = ['state', 'code', 'message', 'frame-sha256'];
  return JSON.stringify(names.map((name) => String(fields[name] ?? '')));
}
