import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createUtilization, registerMachineMetrics } from '../../../../shared/runtime/machine-metrics.ts';

test('utilization is the share of CPU time since the last reading', () => {
  let times = { busyMs: 1000, totalMs: 10_000 };
  const utilization = createUtilization(() => times);
  times = { busyMs: 1250, totalMs: 11_000 };
  expect(utilization()).toBe(0.25);
  times = { busyMs: 2250, totalMs: 12_000 };
  expect(utilization()).toBe(1);
});

test('readings in quick succession give the last share, and none at first', () => {
  let times = { busyMs: 0, totalMs: 0 };
  const utilization = createUtilization(() => times);
  times = { busyMs: 10, totalMs: 10 };
  expect(utilization()).toBe(0);
  times = { busyMs: 500, totalMs: 1000 };
  expect(utilization()).toBe(0.5);
  times = { busyMs: 510, totalMs: 1010 };
  expect(utilization()).toBe(0.5);
});

test('clocks that go back do not take it out of its range', () => {
  let times = { busyMs: 1000, totalMs: 10_000 };
  const utilization = createUtilization(() => times);
  times = { busyMs: 900, totalMs: 11_000 };
  expect(utilization()).toBe(0);
});

test('the gauges of the machine have no labels', async () => {
  const registry = new Registry();
  registerMachineMetrics(registry);
  const text = await registry.metrics();
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  expect(value('nv_cpu_utilization')).toBeGreaterThanOrEqual(0);
  expect(value('nv_cpu_memory_total_bytes')).toBeGreaterThan(2 ** 28);
  expect(value('nv_cpu_memory_used_bytes')).toBeLessThan(value('nv_cpu_memory_total_bytes'));
  expect(value('nv_cpu_memory_used_bytes')).toBeGreaterThan(2 ** 20);
});
