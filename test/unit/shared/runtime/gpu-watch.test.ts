import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { registerGpuMetrics } from '../../../../shared/runtime/gpu-metrics.ts';
import { parseReading } from '../../../../shared/runtime/gpu-readings.ts';
import { GpuWatch } from '../../../../shared/runtime/gpu-watch.ts';
import type { Logger } from '../../../../shared/runtime/logger.ts';
import { until } from '../../../support/redis.ts';

describe('parseReading', () => {
  it('reads a line of nvidia-smi', () => {
    expect(parseReading('GPU-6f1c-a, 37, 1523, 143771, 41, 118.52, 3, NVIDIA H200')).toEqual({
      uuid: 'GPU-6f1c-a',
      index: 3,
      name: 'NVIDIA H200',
      utilization: 0.37,
      usedBytes: 1523 * 1024 * 1024,
      totalBytes: 143771 * 1024 * 1024,
      celsius: 41,
      watts: 118.52,
    });
  });

  it('leaves out what is no number', () => {
    const reading = parseReading(
      'MIG-1, [N/A], [Not Supported], 10, [Unknown Error], [Insufficient Permissions], 0, A',
    );
    expect(reading).toMatchObject({ uuid: 'MIG-1', utilization: undefined, usedBytes: undefined, watts: undefined });
  });

  it.each([
    '',
    'uuid, utilization.gpu [%]',
    'GPU-1, 2',
    'GPU-1, 1, 2, 3, 4, 5, 6',
    'GPU-1, 1, 2, 3, 4, 5, 6, A, B',
    'GPU-1, 1, 2, 3, 4, 5, six, A',
    'NVIDIA-SMI has failed',
  ])('passes %j over', (line) => {
    expect(parseReading(line)).toBeUndefined();
  });
});

describe('GpuWatch', () => {
  let folder = '';
  let watch: GpuWatch | undefined;
  const warnings: object[] = [];
  const logger: Logger = { debug() {}, info() {}, warn: (fields) => void warnings.push(fields), error() {} };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-smi-'));
    warnings.length = 0;
  });
  afterEach(() => {
    watch?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const script = (body: string): string => {
    const path = join(folder, 'nvidia-smi');
    writeFileSync(path, `#!/bin/sh\n${body}\n`);
    chmodSync(path, 0o755);
    return path;
  };

  it('keeps the newest reading of each GPU, from one process, and shows it with the names that Triton has', async () => {
    const lines =
      'echo "GPU-a, 10, 1, 2, [N/A], 50.5, 0, A"; echo "GPU-b, 20, 1, 2, 30, 60, 1, B"; echo "GPU-a, 30, 1, 2, [N/A], 51, 0, A"';
    watch = new GpuWatch(logger, script(`echo run >> ${folder}/runs; echo "$@" > ${folder}/args; ${lines}; sleep 60`));
    watch.start();
    await until('a second reading', () => watch?.readings().some(({ utilization }) => utilization === 0.3) ?? false);
    const registry = new Registry();
    registerGpuMetrics(registry, () => watch?.readings() ?? []);
    const text = await registry.metrics();
    expect(text).toContain('nv_gpu_utilization{gpu_uuid="GPU-a"} 0.3');
    expect(text).toContain('nv_gpu_utilization{gpu_uuid="GPU-b"} 0.2');
    expect(text).toContain('nv_gpu_memory_total_bytes{gpu_uuid="GPU-b"} 2097152');
    expect(text).toContain('nv_gpu_power_usage{gpu_uuid="GPU-a"} 51');
    expect(text).toContain('millrace_gpu_temperature_celsius{gpu_uuid="GPU-b"} 30');
    expect(text).not.toContain('millrace_gpu_temperature_celsius{gpu_uuid="GPU-a"}');
    expect(warnings).toEqual([]);
  });

  it('says once that the tool is not there, and has no series then', async () => {
    watch = new GpuWatch(logger, join(folder, 'missing'));
    watch.start();
    await until('a warning', () => warnings.length > 0);
    expect(watch.readings()).toEqual([]);
    expect(warnings).toEqual([{ reason: expect.stringContaining('ENOENT') as string }]);
  });

  it('says once that the tool has ended', async () => {
    watch = new GpuWatch(logger, script('exit 9'));
    watch.start();
    await until('a warning', () => warnings.length > 0);
    expect(warnings).toEqual([{ reason: 'it ended with 9' }]);
  });
});
