// What Linux tells of a process under /proc.
import { readFileSync, writeFileSync } from 'node:fs';

/** A tick of the kernel's count of processor time: 10 ms on every Linux that Node runs on. */
const TICK_MS = 10;

/** Processor time of all its threads so far, in user and system mode, in ms. */
export function cpuMs(pid) {
  const [, afterName] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = afterName.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

export function residentBytes(pid) {
  return statusBytes(pid, 'VmRSS');
}

/** The most that was resident since `forgetPeak`. */
export function peakBytes(pid) {
  return statusBytes(pid, 'VmHWM');
}

export function forgetPeak(pid) {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

function statusBytes(pid, key) {
  return Number(new RegExp(`${key}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;
}
