import { describe, expect, it } from 'vitest';
import { checkFrame, checkRecord, signedEnd, signedSubmission } from '../../../../shared/jobs/signed-record.ts';
import { parseQueueKeys, QueueKeys } from '../../../../shared/wire/queue-keys.ts';

const keys = new QueueKeys(parseQueueKeys(`one ${Buffer.alloc(32, 1).toString('base64')}`));
const ID = 'j1';
const FRAME = Buffer.from('answer');

const submitted = { model: 'echo', keep: 60_000 };
const open = { ...submitted, ...signedSubmission(keys, ID, submitted), state: 'running' };
const over = { ...open, state: 'succeeded', ...signedEnd(keys, ID, { state: 'succeeded', frame: FRAME }) };

describe('a signed record', () => {
  it('has the answer that was signed with its end', () => {
    expect(checkRecord(keys, ID, over)).toBe(true);
    expect(() => checkFrame(keys, over, FRAME)).not.toThrow();
    expect(() => checkFrame(keys, over, Buffer.from('another'))).toThrow(/not the one that was signed/);
  });

  it('has no answer before it is over, whatever lies there', () => {
    expect(checkRecord(keys, ID, open)).toBe(true);
    expect(() => checkFrame(keys, open, FRAME)).toThrow('a job that is not over has no answer');
    const bent = { ...over, state: 'running' };
    expect(() => checkFrame(keys, bent, FRAME)).toThrow('a job that is not over has no answer');
  });
});
