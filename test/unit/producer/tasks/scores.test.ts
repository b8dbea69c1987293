import { describe, expect, test } from 'vitest';
import { onceEach, topScores } from '../../../../producer/tasks/scores.ts';

const labels = ['a', 'b', 'c'];

describe('topScores', () => {
  test('makes a distribution of logits', () => {
    const best = topScores(Float32Array.of(1, 3, 2), labels, 'detect', 2);
    expect(best.map(({ label }) => label)).toEqual(['b', 'c']);
    expect(best[0]!.score).toBeCloseTo(0.66524, 5);
  });

  test('leaves a distribution alone', () => {
    const best = topScores(Float32Array.of(0.25, 0.25, 0.5), labels, 'detect', 3);
    expect(best).toEqual([
      { label: 'c', score: 0.5 },
      { label: 'a', score: 0.25 },
      { label: 'b', score: 0.25 },
    ]);
  });

  test('does what is asked for', () => {
    expect(topScores(Float32Array.of(0.5, 0.5), labels, 'softmax', 1)[0]!.score).toBe(0.5);
    expect(topScores(Float32Array.of(0, 1), labels, 'sigmoid', 2)[1]!.score).toBe(0.5);
    expect(topScores(Float32Array.of(-7, 9), labels, 'none', 1)).toEqual([{ label: 'b', score: 9 }]);
  });

  test('survives large logits', () => {
    expect(topScores(Float32Array.of(1000, 0), labels, 'detect', 1)).toEqual([{ label: 'a', score: 1 }]);
  });

  test('gives numbers without a label a name', () => {
    const best = topScores(Float32Array.of(0.5, 0.3, 0.2), ['x', 'y'], 'detect', 5);
    expect(best.map(({ label }) => label)).toEqual(['x', 'y', 'LABEL_2']);
  });
});

test('onceEach keeps the best score of a label that stands for several numbers', () => {
  const sorted = topScores(Float32Array.of(0.2, 0.3, 0.5), ['x', 'y', 'x'], 'detect', 5);
  expect(onceEach(sorted)).toEqual([
    { label: 'x', score: 0.5 },
    { label: 'y', score: Math.fround(0.3) },
  ]);
});
