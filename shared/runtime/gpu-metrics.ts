import type { Registry } from 'prom-client';
import { registerCollected } from './collected-metric.ts';
import type { GpuReading } from './gpu-readings.ts';

/** Adds Triton's figures of the GPUs, read at each scrape. A value that a GPU does not tell has no series. */
export function registerGpuMetrics(registry: Registry, readings: () => readonly GpuReading[]): void {
  const gauge = (name: string, help: string, value: (reading: GpuReading) => number | undefined): void =>
    registerCollected(registry, 'gauge', name, help, () =>
      readings().flatMap((reading) => {
        const known = value(reading);
        return known === undefined ? [] : [{ labels: { gpu_uuid: reading.uuid }, value: known }];
      }),
    );
  gauge('nv_gpu_utilization', 'GPU utilization rate [0.0 - 1.0)', (gpu) => gpu.utilization);
  gauge('nv_gpu_memory_total_bytes', 'GPU total memory, in bytes', (gpu) => gpu.totalBytes);
  gauge('nv_gpu_memory_used_bytes', 'GPU used memory, in bytes', (gpu) => gpu.usedBytes);
  gauge('nv_gpu_power_usage', 'GPU power usage in watts', (gpu) => gpu.watts);
  gauge('millrace_gpu_temperature_celsius', 'GPU temperature in degrees Celsius', (gpu) => gpu.celsius);
}
