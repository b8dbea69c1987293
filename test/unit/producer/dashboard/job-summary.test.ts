import { describe, expect, it } from 'vitest';
import { summarizeJobData } from '../../../../producer/dashboard/job-summary.ts';
import type { InferRequest } from '../../../../shared/infer/request.ts';
import { encodeBundle } from '../../../../shared/wire/job.ts';

describe('summarizeJobData', () => {
  it('shows the ids, shapes and sizes of a bundle and not its parameters', () => {
    const request: InferRequest = {
      id: 'mine',
      model: 'minilm',
      version: '1',
      inputs: [{ name: 'input_ids', datatype: 'INT64', shape: [1, 2], data: Buffer.alloc(16) }],
      outputs: ['sentence_embedding'],
      parameters: { prompt: 'a private sentence' },
    };
    const item = { sequence: 7, callId: 'c7', request, priority: 1, deadlineMs: 1000 };
    const { data } = encodeBundle('p1', 'b1', 'minilm', [item]);
    const summary = summarizeJobData(data);
    const text = JSON.stringify(summary);
    expect(text).not.toContain('private');
    expect(summarizeJobData({ signed: JSON.stringify(data), key: 'k1', mac: '0' })).toEqual(summary);
    expect(summary).toMatchObject({
      model: 'minilm',
      requests: 1,
      firstInputs: ['input_ids INT64 [1,2]'],
      producer: 'p1',
      bundle: 'b1',
      items: [
        {
          sequence: 7,
          requestId: 'mine',
          outputs: ['sentence_embedding'],
          inputs: [{ name: 'input_ids', datatype: 'INT64', shape: [1, 2], byteLength: 16 }],
        },
      ],
    });
  });

  it('tells only type and size of values that it does not know', () => {
    const data = {
      data: [0.25, 0.5],
      text: 'a private sentence',
      pixels: Buffer.alloc(12),
      nested: { logits: [[1, 2], [3]], secret: 42, flag: true },
    };
    expect(summarizeJobData(data)).toEqual({
      data: 'list of 2',
      text: 'text of 18 characters',
      pixels: '12 bytes',
      nested: { logits: ['list of 2', 'list of 1'], secret: 'number', flag: true },
    });
  });

  it('stays small whatever the data is', () => {
    let deep: unknown = 'x';
    for (let depth = 0; depth < 100; depth++) deep = { inner: deep };
    const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`field${at}`, at]));
    const data = { name: 'i'.repeat(1e6), deep, wide, shape: new Array(100_000).fill(7), ['k'.repeat(1e5)]: 1 };
    expect(JSON.stringify(summarizeJobData(data)).length).toBeLessThan(10_000);
  });

  it('gives back what is no object', () => {
    expect(summarizeJobData(null)).toBeNull();
    expect(summarizeJobData(undefined)).toBeUndefined();
    expect(summarizeJobData('a private sentence')).toBe('text of 18 characters');
    expect(summarizeJobData([1, 2, 3])).toBe('list of 3');
  });
});
