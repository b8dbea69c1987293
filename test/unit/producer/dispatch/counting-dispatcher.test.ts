import { describe, expect, it } from 'vitest';
import { CountingDispatcher } from '../../../../producer/dispatch/counting-dispatcher.ts';
import type { BatchingReport } from '../../../../shared/infer/batching-report.ts';
import type { Dispatcher, ModelState } from '../../../../shared/infer/ports.ts';

const batching: BatchingReport = {
  merges: true,
  maxRows: 8,
  delayMs: 1,
  auto: true,
  goalMs: 50,
  reason: 'because',
  curve: [{ rows: 1, ms: 2 }],
  company: undefined,
};

/** A dispatcher of which nothing is used but the states of its models. */
function counting(states: () => ModelState[]): CountingDispatcher {
  const catalog: Partial<Dispatcher['catalog']> = {
    list: states,
    resolve: () => {
      throw new Error('no description yet');
    },
  };
  return new CountingDispatcher({ catalog } as Dispatcher); // the rest is not called
}

describe('the statistics of a producer', () => {
  it('show what a worker has announced of the batches of a model, as long as it serves', () => {
    let state: ModelState = { name: 'm', version: '1', state: 'READY', reason: '', batching };
    const dispatcher = counting(() => [state]);
    const shown = () => [...dispatcher.stats()].map((stats) => stats.batching);
    expect(shown()).toEqual([batching]);
    state = { ...state, batching: { ...batching, maxRows: 4 } };
    expect(shown()).toEqual([{ ...batching, maxRows: 4 }]);
    state = { name: 'm', version: '1', state: 'READY', reason: '' };
    expect(shown()).toEqual([undefined]);
  });
});
