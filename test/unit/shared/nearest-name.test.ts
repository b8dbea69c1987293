import { describe, expect, it } from 'vitest';
import { nearestName } from '../../../shared/nearest-name.ts';

describe('nearestName', () => {
  const names = ['max_batch_size', 'input', 'output', 'instance_group', 'TYPE_FP32', 'TYPE_FP64'];

  it.each([
    ['max_bach_size', 'max_batch_size'],
    ['inputs', 'input'],
    ['OUTPUT', 'output'],
    ['instances_groups', 'instance_group'],
    ['FP64', 'TYPE_FP64'],
    ['max_batch', 'max_batch_size'],
  ])('takes %s for %s', (name, expected) => {
    expect(nearestName(name, names)).toBe(expected);
  });

  it.each(['xyzzy', '', 'a'])('finds nothing near %j', (name) => {
    expect(nearestName(name, names)).toBeUndefined();
  });
});
