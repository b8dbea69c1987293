import { expect, it } from 'vitest';
import { readLines } from '../../../../../producer/facade/bulk/line-reader.ts';

async function linesOf(
  chunks: readonly string[],
  maxLineBytes = 100,
): Promise<(readonly [number, string | undefined])[]> {
  // eslint-disable-next-line @typescript-eslint/require-await
  async function* stream() {
    for (const chunk of chunks) yield Buffer.from(chunk);
  }
  const lines: [number, string | undefined][] = [];
  for await (const { index, bytes } of readLines(stream(), maxLineBytes)) lines.push([index, bytes?.toString()]);
  return lines;
}

it('finds the lines wherever chunks end, and the last one without its end', async () => {
  const expected = [
    [0, 'one'],
    [1, 'two'],
    [2, 'three'],
  ];
  expect(await linesOf(['one\ntwo\nthree\n'])).toEqual(expected);
  expect(await linesOf(Array.from('one\ntwo\nthree'))).toEqual(expected);
  expect(await linesOf(['one', '\n', 'tw', 'o\nth', 'ree'])).toEqual(expected);
});

it('leaves blank lines out and counts them', async () => {
  expect(await linesOf(['\n\none\r\n  \n', '\ntwo\n\n'])).toEqual([
    [2, 'one\r'],
    [5, 'two'],
  ]);
});

it('tells of a line that is too long and goes on behind it', async () => {
  expect(await linesOf(['abc\nabc', 'def\nabcd\n', 'x', 'yyyy'], 4)).toEqual([
    [0, 'abc'],
    [1, undefined],
    [2, 'abcd'],
    [3, undefined],
  ]);
});
