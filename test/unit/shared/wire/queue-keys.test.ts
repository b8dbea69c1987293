import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseQueueKeys, QueueKeys } from '../../../../shared/wire/queue-keys.ts';
import { openBytes, openText, sealBytes, sealText } from '../../../../shared/wire/sealed.ts';

const SECRET = Buffer.alloc(32, 7);
const K1 = `k1 ${SECRET.toString('base64')}`;
const K2 = `k2 ${Buffer.alloc(64, 9).toString('base64')}`;
const keysOf = (text: string, acceptsUnsigned?: boolean) => new QueueKeys(parseQueueKeys(text), acceptsUnsigned);

describe('the keys of a queue', () => {
  it('are read a line each, without comments', () => {
    expect(parseQueueKeys(`# ours\n\n${K1}\r\n  ${K2}  \n`).map(({ id }) => id)).toEqual(['k1', 'k2']);
  });

  it.each([
    ['nothing', '# none\n', /0 keys, expected 1 to 8/],
    ['too many', Array.from({ length: 9 }, (_, i) => K1.replace('k1', `k${i}`)).join('\n'), /9 keys/],
    ['an id alone', 'k1', /line 1 is not of the right form/],
    ['a word too many', `${K1} more`, /line 1 is not of the right form/],
    ['an id that is none', `k/1 ${SECRET.toString('base64')}`, /line 1/],
    ['a short secret', `${K1}\nk2 ${Buffer.alloc(31).toString('base64')}`, /line 2 has 31 bytes/],
    ['what is no base64', 'k1 not-base64!', /line 1/],
    ['an id twice', `${K1}\n${K1}`, /line 2 has the id of a line before/],
  ])('are refused when the file has %s, without what stands there', (_, text, expected) => {
    const parse = () => parseQueueKeys(text);
    expect(parse).toThrow(expected);
    expect(parse).not.toThrow(SECRET.toString('base64'));
  });

  it('sign what it is, what it is about and its data, each apart from the others', () => {
    const { key, mac } = keysOf(K1).sign('job', 'm', 'text');
    expect({ key, mac }).toEqual({
      key: 'k1',
      mac: createHmac('sha256', SECRET).update('millrace.job.1\nm\ntext').digest('hex'),
    });
    const keys = keysOf(K1);
    expect(keys.check('job', 'm', 'text', { key, mac })).toBe(true);
    for (const [thing, about, data] of [
      ['reply', 'm', 'text'],
      ['job', 'n', 'text'],
      ['job', 'm', 'texts'],
    ] as const) {
      expect(() => keys.check(thing, about, data, { key, mac })).toThrow(`the signature of the ${thing} is wrong`);
    }
  });

  it('check with each of them and sign with the first', () => {
    const signature = keysOf(K2).sign('reply', 'p', 'x');
    expect(keysOf(`${K1}\n${K2}`).check('reply', 'p', 'x', signature)).toBe(true);
    expect(keysOf(`${K1}\n${K2}`).sign('reply', 'p', 'x').key).toBe('k1');
    expect(() => keysOf(K1).check('reply', 'p', 'x', signature)).toThrow(/a key that is not known here/);
  });

  it.each([
    { key: 'k1', mac: undefined },
    { key: undefined, mac: '0'.repeat(64) },
    { key: 'k1', mac: 'zz' },
    { key: 'k1', mac: 5 },
    { key: ['k1'], mac: '0'.repeat(64) },
    { key: '__proto__', mac: '0'.repeat(64) },
  ])('take half a signature for a wrong one, also where unsigned things count: %j', (signature) => {
    const keys = keysOf(K1, true);
    expect(() => keys.check('job', 'm', 'x', signature)).toThrow(
      expect.objectContaining({ code: 'PERMISSION_DENIED' }) as Error,
    );
    expect(keys.refused().get('job')).toBe(1);
  });

  it('let what is not signed pass only when they are told to', () => {
    expect(keysOf(K1, true).check('job', 'm', 'x', {})).toBe(false);
    expect(() => keysOf(K1).check('job', 'm', 'x', {})).toThrow(/is not signed/);
  });
});

describe('something sealed', () => {
  const keys = keysOf(K1);

  it('opens to what it was, with keys and without', () => {
    const text = '{"signed":"no"} "ü"';
    const sealed = sealText(keys, 'control', 'm', text);
    expect(openText(keys, 'control', 'm', sealed)).toBe(text);
    expect(openText(undefined, 'control', 'm', sealed)).toBe(text);
    expect(sealText(undefined, 'control', 'm', text)).toBe(text);
    const bytes = Buffer.from([1, 2, 3]);
    const sealedBytes = sealBytes(keys, 'cache', 'k', bytes);
    expect(openBytes(keys, 'cache', 'k', sealedBytes)).toEqual(bytes);
    expect(openBytes(undefined, 'cache', 'k', sealedBytes)).toEqual(bytes);
    expect(sealBytes(undefined, 'cache', 'k', bytes)).toBe(bytes);
  });

  it('does not open when it is changed, cut, elsewhere or not sealed', () => {
    const sealed = sealText(keys, 'control', 'm', '{"a":1}');
    for (const text of [sealed.replace('1', '2'), '{"a":1}', '{"signed":"x"}', '{"signed":', '']) {
      expect(() => openText(keys, 'control', 'm', text)).toThrow();
    }
    expect(() => openText(keys, 'control', 'n', sealed)).toThrow(/wrong/);
    const bytes = sealBytes(keys, 'cache', 'k', Buffer.from('abc'));
    for (let end = 0; end < bytes.length; end += 1) {
      expect(() => openBytes(keys, 'cache', 'k', bytes.subarray(0, end))).toThrow();
    }
    expect(() => openBytes(keys, 'cache', 'other', bytes)).toThrow(/wrong/);
  });
});
