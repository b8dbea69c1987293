import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeModelName, isWireId, queueName, sequenceKey } from '../../../../shared/wire/names.ts';

describe('names in Redis', () => {
  it('keep plain model names as they are', () => {
    expect(encodeModelName('efficientnet_lite0-int8.v2')).toBe('efficientnet_lite0-int8.v2');
  });

  it('hold nothing that could leave their place, and never two models under one name', () => {
    const name = fc.string({ minLength: 1, maxLength: 40, unit: 'grapheme' });
    fc.assert(
      fc.property(name, name, (a, b) => {
        fc.pre(Buffer.byteLength(a) <= 255 && Buffer.byteLength(b) <= 255);
        expect(queueName(a)).toMatch(/^[A-Za-z0-9_.~-]+$/);
        if (isUtf8(a) && isUtf8(b)) expect(queueName(a) === queueName(b)).toBe(a === b);
      }),
    );
  });

  it('never give the queue of a worker to a model or a version', () => {
    const names = [
      queueName('m'),
      queueName('m', '1'),
      queueName('m', '', '1'),
      queueName('m', '', 'w1'),
      queueName('m@'),
    ];
    expect(new Set(names).size).toBe(names.length);
    expect(queueName('m', '', 'w1')).toBe('m@@w1');
  });

  it('take any text as the id of a sequence', () => {
    const keys = ['n1', 's1', 's*', 's:{x}', 's ', 'sä'].map((key) => sequenceKey('m', '1', key));
    expect(new Set(keys).size).toBe(keys.length);
    for (const key of keys) expect(key).toMatch(/^\{millrace\}\.sequence:m:1:[A-Za-z0-9_-]+$/);
  });

  it('refuse empty model names and ones above 255 bytes', () => {
    expect(() => encodeModelName('')).toThrow(/1 to 255 bytes, this one has 0/);
    expect(() => encodeModelName('ü'.repeat(128))).toThrow(/has 256/);
  });

  it.each(['', '*', 'a:b', 'a b', '{x}', 'a\n', 'x'.repeat(65), 7, null])('take no id like %j', (id) => {
    expect(isWireId(id)).toBe(false);
  });
});

/** Half a surrogate pair is no text that a model folder could be named with. */
function isUtf8(text: string): boolean {
  return Buffer.from(text).toString() === text;
}
