import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import { findRepairs } from '../../../../shared/model/suggest-repair.ts';
import { verifyModelConfig } from '../../../../shared/model/verify-config.ts';
import { graph, tensor } from './graphs.ts';

const io = (dims: string) =>
  `input { name: "x" data_type: TYPE_FP32 dims: ${dims} } output { name: "y" data_type: TYPE_FP32 dims: ${dims} }`;
const FIXED = graph([tensor('x', [1, 3, 300, 300])], [tensor('y', [1, 3, 300, 300])]);
const BATCHED = graph([tensor('x', [-1, 3])], [tensor('y', [-1, 3])]);

function fixesOf(text: string, file = FIXED): string[] {
  return findRepairs(parseModelConfig(text, 'c'), file).map(({ fix }) => fix);
}

describe('findRepairs', () => {
  it('changes max_batch_size alone where the dims hold the whole shape', () => {
    const text = `max_batch_size: 1 ${io('[ 1, 3, 300, 300 ]')}`;
    expect(fixesOf(text)).toEqual(['set max_batch_size: 0', 'set max_batch_size: 0']);
    const repaired = parseModelConfig(text.replace('max_batch_size: 1', 'max_batch_size: 0'), 'c');
    expect(verifyModelConfig(repaired, FIXED)).toEqual([]);
  });

  it('asks for max_batch_size where the dims leave the rows out', () => {
    expect(fixesOf(io('[ 3 ]'), BATCHED)).toEqual(['set max_batch_size: 1, or more', 'set max_batch_size: 1, or more']);
  });

  it('says of each tensor what to change where one change is not enough', () => {
    expect(fixesOf(`max_batch_size: 4 ${io('[ 7 ]')}`, BATCHED)).toEqual(['set dims: [ 3 ]', 'set dims: [ 3 ]']);
  });

  it('does not propose a config that would be refused for something else', () => {
    const batching = 'dynamic_batching { preferred_batch_size: 2 }';
    for (const fix of fixesOf(`max_batch_size: 2 ${batching} ${io('[ 1, 3, 300, 300 ]')}`)) {
      expect(fix).toContain('dims: [ 1, 3, 300, 300 ]');
    }
  });

  it('finds nothing to repair in a config that fits', () => {
    expect(fixesOf(`max_batch_size: 4 ${io('[ 3 ]')}`, BATCHED)).toEqual([]);
  });
});
