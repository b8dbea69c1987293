import { expect, it } from 'vitest';
import { printPool } from '../../../../cli/commands/pool/list.ts';
import type { PoolView } from '../../../../producer/pool/pool-view.ts';

const NOW = Date.parse('2026-01-01T12:00:00Z');
const SPEED = { rows_per_second: 120, ms_per_row: 8.33 };
const NO_SPEED = { rows_per_second: null, ms_per_row: null };

const VIEW: PoolView = {
  desired_workers: 3,
  latency_goal_ms: 1000,
  max_desired_workers: 10,
  workers: [
    {
      id: 'w1',
      name: 'a:7',
      host: 'a',
      pid: 7,
      state: 'ready',
      reason: '',
      started: '2026-01-01T11:00:00.000Z',
      devices: [{ kind: 'cpu', name: 'x', count: 2 }],
      requests_in_hand: 12,
      load: 0.5,
      loop_delay_ms: 1,
      last_job: '2026-01-01T11:59:58.000Z',
      models: [
        { name: 'm', version: '1', state: 'READY', reason: '', ...SPEED, rows_in_hand: 12 },
        { name: 'n', version: '2', state: 'UNAVAILABLE', reason: 'no\u001b[31m file', ...NO_SPEED, rows_in_hand: 0 },
      ],
    },
    {
      id: 'w2',
      name: 'b:8',
      host: 'b',
      pid: 8,
      state: 'draining',
      reason: '',
      started: null,
      devices: [],
      requests_in_hand: 0,
      load: 0,
      loop_delay_ms: null,
      last_job: null,
      models: [],
    },
  ],
  models: [
    { name: 'm', workers: 1, waiting_jobs: 2, waiting_rows: 40, running_rows: 12, ...SPEED, desired_workers: 3 },
    { name: 'n', workers: 0, waiting_jobs: 0, waiting_rows: 0, running_rows: 0, ...NO_SPEED, desired_workers: 0 },
  ],
};

function print(view: PoolView): string[] {
  const lines: string[] = [];
  const output = { json: false, paint: (_: string, text: string) => text, value: () => undefined };
  printPool(view, { ...output, line: (text) => lines.push(text) }, NOW);
  return lines;
}

it('shows workers and models as two tables, one line each whatever a worker has written', () => {
  expect(print(VIEW)).toEqual([
    '1 worker, 3 desired for a latency goal of 1000 ms',
    '',
    'worker  state     load  in hand  devices  last job  models',
    'a:7     ready     50%   12       2 cpu    2 s ago   m:1, n:2 UNAVAILABLE (no [31m file)',
    'b:8     draining  0%    0        -        -         -',
    '',
    'model  workers  waiting  running  rows/s  ms/row  desired',
    'm      1        40       12       120     8.33    3',
    'n      0        0        0        -       -       0',
  ]);
});

it('says so in one line where there is nothing', () => {
  expect(print({ ...VIEW, desired_workers: 0, workers: [], models: [] })).toEqual([
    '0 workers, 0 desired for a latency goal of 1000 ms',
  ]);
});

it('shows the GPUs that models run on, and what nothing tells as -', () => {
  const gpu = { kind: 'gpu', name: 'NVIDIA A100', count: 1, index: 0, uuid: 'GPU-a' } as const;
  const gibibyte = 1024 ** 3;
  const used = { memory_total_bytes: 80 * gibibyte, memory_used_bytes: 9.26 * gibibyte, utilization: 0.374 };
  const silent = { memory_total_bytes: null, memory_used_bytes: null, utilization: null };
  const [first, second] = VIEW.workers;
  const devices = [...first!.devices, { ...gpu, ...used }, { ...gpu, index: 1, name: '', uuid: null, ...silent }];
  const lines = print({ ...VIEW, workers: [{ ...first!, devices }, second!] });
  expect(lines[3]).toContain('2 cpu + 2 gpu');
  expect(lines.slice(5, 10)).toEqual([
    '',
    'gpu    worker  name         memory           busy',
    'GPU-a  a:7     NVIDIA A100  9.3 of 80.0 GiB  37%',
    '1      a:7     -            -                -',
    '',
  ]);
});
