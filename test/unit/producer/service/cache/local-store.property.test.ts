import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesOf, LocalStore } from '../../../../../producer/service/cache/local-store.ts';
import { NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { InferResponse } from '../../../../../shared/infer/response.ts';
import { NO_TIME } from '../../../../support/fake-dispatcher.ts';

function answerOf(byteLength: number, outputs = 1): InferResponse {
  const data = new Uint8Array(byteLength);
  return {
    model: 'm',
    version: '1',
    outputs: Array.from({ length: outputs }, (_, index) => ({
      name: `y${index}`,
      datatype: 'UINT8',
      shape: [byteLength],
      data,
    })),
    parameters: NO_PARAMETERS,
    timings: NO_TIME,
  };
}

const STEPS = fc.array(
  fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    put: fc.boolean(),
    bytes: fc.integer({ min: 0, max: 6000 }),
    outputs: fc.integer({ min: 0, max: 3 }),
  }),
  { maxLength: 60 },
);

describe('a local store', () => {
  it('never holds more than its bytes, and of what it was given always the entries used last', () => {
    fc.assert(
      fc.property(STEPS, fc.integer({ min: 1024, max: 20_000 }), (steps, maxBytes) => {
        const store = new LocalStore(maxBytes);
        // The model: entries by their last use, newest first.
        let model: { key: string; bytes: number }[] = [];
        for (const { key, put, bytes, outputs } of steps) {
          const known = model.find((entry) => entry.key === key);
          if (put) {
            const answer = answerOf(bytes, outputs);
            store.put(key, answer);
            const size = bytesOf(answer);
            if (size > maxBytes) continue;
            model = [{ key, bytes: size }, ...model.filter((entry) => entry !== known)];
            while (model.reduce((sum, entry) => sum + entry.bytes, 0) > maxBytes) model.pop();
          } else {
            expect(store.get(key) !== undefined).toBe(known !== undefined);
            if (known) model = [known, ...model.filter((entry) => entry !== known)];
          }
          const { held } = store.figures();
          expect(held).toEqual({ entries: model.length, bytes: model.reduce((sum, entry) => sum + entry.bytes, 0) });
          expect(held?.bytes).toBeLessThanOrEqual(maxBytes);
        }
      }),
    );
  });

  it('counts more than the bytes of the tensors', () => {
    expect(bytesOf(answerOf(100))).toBeGreaterThan(1000);
  });

  it('keeps an answer as it was when it was put in', () => {
    const store = new LocalStore(100_000);
    const answer = answerOf(4);
    store.put('a', answer);
    answer.outputs[0]!.data.fill(7);
    expect([...store.get('a')!.outputs[0]!.data]).toEqual([0, 0, 0, 0]);
  });

  it('hands an answer out in memory of its own each time', () => {
    const store = new LocalStore(100_000);
    store.put('a', answerOf(4));
    store.get('a')!.outputs[0]!.data.fill(7);
    expect([...store.get('a')!.outputs[0]!.data]).toEqual([0, 0, 0, 0]);
  });

  it('keeps none of the memory around a view', () => {
    const store = new LocalStore(100_000);
    const whole = new Uint8Array(50_000);
    const answer = answerOf(4);
    store.put('a', { ...answer, outputs: [{ ...answer.outputs[0]!, data: whole.subarray(100, 104) }] });
    expect(store.get('a')!.outputs[0]!.data.buffer.byteLength).toBe(4);
    store.put('b', { ...answer, outputs: [{ ...answer.outputs[0]!, data: Buffer.from(whole.buffer, 100, 4) }] });
    expect(store.get('b')!.outputs[0]!.data.buffer.byteLength).toBe(4);
  });
});
