// nvidia-smi in its loop, as the metrics use it: the exact lines, what it costs, and whether it keeps its pace under load.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { dist } from './places.mjs';
import { QUICK } from './parts.mjs';
import { startHolder } from './holder.mjs';
import { rounded } from './report.mjs';

const { GPU_QUERY, parseReading } = await import(dist('shared/runtime/gpu-readings.js'));

const FOR_MS = QUICK ? 2500 : 8000;
/** Of the kernel's clock, in ms. */
const TICK_MS = 10;

export async function measureSmi(report) {
  const args = [`--query-gpu=${GPU_QUERY}`, '--format=csv,noheader,nounits', '--loop-ms=1000'];
  const child = spawn('nvidia-smi', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  let failure;
  child.once('error', (error) => (failure = error.code === 'ENOENT' ? 'nvidia-smi is not there' : error.message));
  createInterface({ input: child.stdout }).on('line', (text) => lines.push({ text, atMs: performance.now() }));
  child.stderr.setEncoding('utf8').on('data', (text) => (failure = text.trim()));
  const holder = startHolder('matrix', 64);
  try {
    await holder.ask('open');
    const startedMs = performance.now();
    await holder.ask(`run ${FOR_MS}`);
    const cost = failure === undefined ? cpuMs(child.pid) : undefined;
    if (failure !== undefined) throw new Error(failure);
    const gaps = lines.slice(1).map(({ atMs }, index) => atMs - lines[index].atMs);
    report.note(
      'lines',
      lines
        .slice(0, 5)
        .map(({ text }) => text)
        .concat(lines.slice(-3).map(({ text }) => text)),
    );
    report.note('understood', lines.filter(({ text }) => parseReading(text)).length);
    report.note('count', lines.length);
    report.note('largestGapMs', rounded(Math.max(0, ...gaps)));
    report.note('cpuMsPerSecond', rounded((cost * 1000) / (performance.now() - startedMs)));
  } finally {
    child.kill('SIGKILL');
    holder.kill('SIGKILL');
  }
}

/** User and system time of a process so far. */
function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
