import { expect, it } from 'vitest';
import { rowsOfJob } from '../../../../producer/pool/backlog-reader.ts';
import { NO_PARAMETERS } from '../../../../shared/infer/request.ts';
import { encodeBundle } from '../../../../shared/wire/job.ts';

function job(...rows: number[]): string {
  return jobWith(() => Infinity, rows);
}

function jobWith(deadlineOf: (index: number) => number, rows: readonly number[]): string {
  const items = rows.map((count, sequence) => ({
    sequence,
    callId: 'c',
    priority: 0,
    deadlineMs: deadlineOf(sequence),
    request: {
      id: '',
      model: 'm',
      version: '',
      inputs: [{ name: 'x', datatype: 'UINT8' as const, shape: [count, 2], data: new Uint8Array(count * 2) }],
      outputs: [],
      parameters: NO_PARAMETERS,
    },
  }));
  return JSON.stringify(encodeBundle('p', 'b', 'm', items).data);
}

it('counts the rows of all requests in a job, and requests where there is no batch dimension', () => {
  expect(rowsOfJob(job(3, 1, 8), true, 1000).rows).toBe(12);
  expect(rowsOfJob(job(3, 1, 8), false, 1000).rows).toBe(3);
});

it('leaves out requests whose deadline has passed, and says when the last one has', () => {
  const data = jobWith((index) => 500 + index * 500, [3, 1, 8]);
  expect(rowsOfJob(data, true, 1000)).toEqual({ rows: 8, overMs: 1500, forJob: false });
  expect(rowsOfJob(data, true, 1500)).toEqual({ rows: 0, overMs: 1500, forJob: false });
});

it.each(['', 'null', '[]', '{}', '{"items":[]}', '{"items":[1]}', '{"items":[{"inputs":[{"shape":[-4]}]}]}'])(
  'counts %j as one row',
  (data) => {
    expect(rowsOfJob(data, true, 1000)).toEqual({ rows: 1, overMs: Infinity, forJob: false });
  },
);
