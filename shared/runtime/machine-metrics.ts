import { cpus, freemem, totalmem } from 'node:os';
import type { Registry } from 'prom-client';
import { registerCollected } from './collected-metric.ts';

/** CPU time of all cores together, in ms, below which a share says nothing: cores count in ticks of 10 ms. */
const MIN_INTERVAL_MS = 500;

/** CPU time of all cores since the machine started, in ms. */
export interface CpuTimes {
  readonly busyMs: number;
  readonly totalMs: number;
}

/** Adds Triton's figures of the whole machine, read at each scrape. */
export function registerMachineMetrics(registry: Registry): void {
  const utilization = createUtilization(readCpuTimes);
  const gauge = (name: string, help: string, read: () => number): void =>
    registerCollected(registry, 'gauge', name, help, () => [{ labels: {}, value: read() }]);
  gauge('nv_cpu_utilization', 'CPU utilization rate of the machine since the last scrape, from 0 to 1', utilization);
  gauge('nv_cpu_memory_total_bytes', 'Memory of the machine in bytes', totalmem);
  gauge('nv_cpu_memory_used_bytes', 'Memory of the machine that is in use, in bytes', () => totalmem() - freemem());
}

/**
 * The share of CPU time that was spent between two calls; the first one counts from now. Calls that follow each other too
 * closely, from two scrapers for example, get the figure of the last.
 */
export function createUtilization(read: () => CpuTimes): () => number {
  let last = read();
  let value = 0;
  return () => {
    const now = read();
    const elapsedMs = now.totalMs - last.totalMs;
    if (elapsedMs >= MIN_INTERVAL_MS) {
      value = Math.min(1, Math.max(0, (now.busyMs - last.busyMs) / elapsedMs));
      last = now;
    }
    return value;
  };
}

function readCpuTimes(): CpuTimes {
  let busyMs = 0;
  let totalMs = 0;
  for (const { times } of cpus()) {
    const coreBusyMs = times.user + times.nice + times.sys + times.irq;
    busyMs += coreBusyMs;
    totalMs += coreBusyMs + times.idle;
  }
  return { busyMs, totalMs };
}
