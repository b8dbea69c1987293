import type { GpuView, ModelView, PoolView, WorkerView } from '../../../producer/pool/pool-view.ts';
import type { PoolSettings } from '../../flags/pool-catalogue.ts';
import type { Colour, Output } from '../output.ts';
import { createServerClient } from '../server-client.ts';

/** `millrace pool list`: the workers and the models of a pool, as two tables. */
export async function listPool(settings: PoolSettings<'list'>, output: Output): Promise<number> {
  const view = await createServerClient(settings).pool();
  if (output.json) output.value(view);
  else printPool(view, output);
  return 0;
}

const WORKER_TITLES = ['worker', 'state', 'load', 'in hand', 'devices', 'last job', 'models'];
const GPU_TITLES = ['gpu', 'worker', 'name', 'memory', 'busy'];
const MODEL_TITLES = ['model', 'workers', 'waiting', 'running', 'rows/s', 'ms/row', 'desired'];

export function printPool(view: PoolView, output: Output, nowMs = Date.now()): void {
  const { desired_workers: desired, latency_goal_ms: goal, workers, models } = view;
  const there = workers.filter(({ state }) => state !== 'draining').length;
  output.line(`${counted(there, 'worker')}, ${desired} desired for a latency goal of ${goal} ms`);
  if (workers.length > 0) {
    output.line('');
    printTable(
      WORKER_TITLES,
      workers.map((worker) => rowOfWorker(worker, nowMs)),
      output,
      1,
    );
  }
  const gpus = workers.flatMap((worker) => worker.devices.filter(isGpu).map((gpu) => rowOfGpu(worker, gpu)));
  if (gpus.length > 0) {
    output.line('');
    printTable(GPU_TITLES, gpus, output);
  }
  if (models.length > 0) {
    output.line('');
    printTable(MODEL_TITLES, models.map(rowOfModel), output);
  }
}

function rowOfWorker(worker: WorkerView, nowMs: number): string[] {
  const { name, state, reason, load, requests_in_hand: inHand, devices, last_job: lastJob, models } = worker;
  const shown = models.map(({ name: model, version, state: modelState, reason: why }) => {
    const which = version === '' ? model : `${model}:${version}`;
    if (modelState === 'READY') return which;
    return `${which} ${modelState}${why === '' ? '' : ` (${why})`}`;
  });
  return [
    name,
    state,
    `${Math.round(load * 100)}%`,
    String(inHand),
    countedDevices(devices),
    lastJob === null ? '-' : ago(nowMs - Date.parse(lastJob)),
    shown.length > 0 ? shown.join(', ') : reason,
  ];
}

function countedDevices(devices: WorkerView['devices']): string {
  const counts = new Map<string, number>();
  for (const { kind, count } of devices) counts.set(kind, (counts.get(kind) ?? 0) + count);
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(' + ');
}

function isGpu(device: WorkerView['devices'][number]): device is GpuView {
  return 'uuid' in device;
}

function rowOfGpu({ name: worker }: WorkerView, gpu: GpuView): string[] {
  const { uuid, index, name, memory_used_bytes: used, memory_total_bytes: total, utilization } = gpu;
  const memory = used === null || total === null ? '-' : `${gibibytes(used)} of ${gibibytes(total)} GiB`;
  const busy = utilization === null ? '-' : `${Math.round(utilization * 100)}%`;
  return [uuid ?? String(index), worker, name, memory, busy];
}

function gibibytes(bytes: number): string {
  return (bytes / 1024 ** 3).toFixed(1);
}

function rowOfModel(model: ModelView): string[] {
  const { rows_per_second: speed, ms_per_row: ms } = model;
  return [
    model.name,
    String(model.workers),
    String(model.waiting_rows),
    String(model.running_rows),
    speed === null ? '-' : String(speed),
    ms === null ? '-' : String(ms),
    String(model.desired_workers),
  ];
}

/** @param stateColumn whose texts are coloured */
function printTable(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  output: Output,
  stateColumn = -1,
): void {
  const clean = rows.map((row) => row.map(plain));
  const widths = titles.map((title, column) => Math.max(title.length, ...clean.map((row) => row[column]?.length ?? 0)));
  const padded = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
  output.line(output.paint('dim', padded(titles).join('  ').trimEnd()));
  for (const row of clean) {
    const colour = COLOURS[row[stateColumn] ?? ''];
    const cells = padded(row).map((cell, column) =>
      column === stateColumn && colour !== undefined ? output.paint(colour, cell) : cell,
    );
    output.line(cells.join('  ').trimEnd());
  }
}

const COLOURS: Readonly<Record<string, Colour | undefined>> = { ready: 'green', not_ready: 'red', draining: 'yellow' };

/** Whatever a worker has written, one line of a table is one line. */
function plain(text: string): string {
  return (text === '' ? '-' : text).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
}

function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s ago`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
