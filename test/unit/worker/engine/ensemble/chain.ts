import { ensembleConfig, io, step } from '../../../shared/model/ensembles.ts';
import { floats } from '../support/fake-instance.ts';
import { FakeMember, startEnsemble } from './kit.ts';

/** A batching model from x to y. */
export const BATCHING = `max_batch_size: 8 ${io('input', 'x', [2])} ${io('output', 'y', [2])}`;
export const HEAD = `max_batch_size: 8 ${io('input', 'IN', [2])} ${io('output', 'OUT', [2])}`;

/** IN -> a -> MIDDLE -> b -> OUT */
export const CHAIN = ensembleConfig(
  HEAD,
  step('a', { x: 'IN' }, { y: 'MIDDLE' }),
  step('b', { x: 'MIDDLE' }, { y: 'OUT' }),
);

export const input = () => floats('IN', [1, 2], [1, 2]);

export async function chain(maxQueueSize?: number) {
  const [a, b] = [new FakeMember('a', BATCHING), new FakeMember('b', BATCHING)];
  return { a, b, ...(await startEnsemble(CHAIN, [a, b], maxQueueSize)) };
}
