import { describe, expect, it } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import { decodeFrame, encodeFrame } from '../../../../shared/wire/frame.ts';
import { decodeReplies, encodeReplies, type Reply } from '../../../../shared/wire/reply.ts';
import { echo, requestOf } from '../../../support/worker.ts';

const response = echo(requestOf('m', Buffer.from('abc'), { parameters: { n: 2n ** 62n, f: Infinity } }));

describe('a reply frame', () => {
  it('carries answers and errors of one batch', () => {
    const replies: Reply[] = [
      { sequence: 1, response },
      { sequence: 2, error: new InferError('NOT_FOUND', 'no such model', { cause: new Error('/secret/path') }) },
      { sequence: 3, response: { ...response, outputs: [] } },
    ];
    const decoded = decodeReplies(encodeReplies(replies));
    expect(decoded[0]).toEqual({ sequence: 1, response });
    expect(decoded[1]).toMatchObject({ sequence: 2, error: { code: 'NOT_FOUND', message: 'no such model' } });
    expect(decoded[2]).toMatchObject({ sequence: 3, response: { outputs: [] } });
  });

  it('carries how much of a run was padding, where the worker says so', () => {
    const timings = { ...response.timings, elements: 64, paddedElements: 12 };
    const [reply] = decodeReplies(encodeReplies([{ sequence: 1, response: { ...response, timings } }]));
    expect(reply).toMatchObject({ response: { timings: { elements: 64, paddedElements: 12 } } });
    const [plain] = decodeReplies(encodeReplies([{ sequence: 1, response }]));
    expect(plain).not.toHaveProperty('response.timings.elements');
  });

  it.each(['entry', 'queue'] as const)('carries that a request was refused at the %s', (refusedAt) => {
    const frame = encodeReplies([{ sequence: 1, error: new InferError('UNAVAILABLE', 'full', { refusedAt }) }]);
    expect(decodeReplies(frame)[0]).toMatchObject({ error: { code: 'UNAVAILABLE', refusedAt } });
  });

  it('ignores a place of refusal that it does not know', () => {
    const { header, sections } = decodeFrame(encodeReplies([{ sequence: 1, error: new InferError('INTERNAL', 'x') }]));
    const text = JSON.stringify(header).replace('"message"', '"refusedAt":"moon","message"');
    const [reply] = decodeReplies(encodeFrame(JSON.parse(text) as object, sections));
    expect(reply).toMatchObject({ error: { refusedAt: undefined } });
  });

  it('takes no cause along, which may hold anything', () => {
    const error = new InferError('INTERNAL', 'failed', { cause: new Error('/secret/path') });
    expect(encodeReplies([{ sequence: 1, error }]).toString()).not.toContain('secret');
  });

  it('is refused when sections and outputs do not match', () => {
    const { header, sections } = decodeFrame(encodeReplies([{ sequence: 1, response }]));
    expect(() => decodeReplies(encodeFrame(header as object, []))).toThrow(/fewer sections/);
    expect(() => decodeReplies(encodeFrame(header as object, [...sections, Buffer.of(1)]))).toThrow(/more sections/);
    expect(() => decodeReplies(encodeFrame(header as object, [Buffer.of(1)]))).toThrow(/announced with 3 bytes/);
  });

  it.each([{}, { v: 2, replies: [] }, { v: 1, replies: [{}] }, { v: 1, replies: [{ sequence: 1, error: {} }] }])(
    'is refused when its header is %j',
    (header) => {
      expect(() => decodeReplies(encodeFrame(header, []))).toThrow(/broken reply/);
    },
  );
});
