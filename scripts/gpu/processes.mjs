// Several processes on one card: what they do together, beside one alone.
import { readdirSync, readFileSync } from 'node:fs';
import { QUICK } from './parts.mjs';
import { startHolder } from './holder.mjs';
import { rounded, textOf } from './report.mjs';

const COUNTS = QUICK ? [1, 2] : [1, 2, 4];
const FOR_MS = QUICK ? 300 : 2500;
const ROWS = { matrix: 8, vision: 8 };

export async function measureProcesses(report) {
  report.note('mps', mpsRuns());
  const failed = [];
  for (const [model, rows] of Object.entries(ROWS)) {
    const found = {};
    for (const count of COUNTS) {
      const holders = Array.from({ length: count }, () => startHolder(model, rows));
      try {
        await Promise.all(holders.map((holder) => holder.ask('open')));
        await Promise.all(holders.map((holder) => holder.ask('run 200')));
        const runs = await Promise.all(holders.map((holder) => holder.ask(`run ${FOR_MS}`)));
        const each = runs.map(({ runs: done, tookMs }) => rounded((done * rows * 1000) / tookMs));
        const rowsPerSecond = rounded(each.reduce((sum, speed) => sum + speed, 0));
        found[count] = { rowsPerSecond, timesOne: rounded(rowsPerSecond / (found[1]?.rowsPerSecond ?? rowsPerSecond)) };
      } catch (error) {
        found[count] = { error: textOf(error) };
        failed.push(`${count} x ${model}: ${textOf(error)}`);
      } finally {
        for (const holder of holders) holder.kill('SIGKILL');
        await Promise.all(holders.map(({ ended }) => ended));
      }
      report.note(model, found);
    }
  }
  if (failed.length > 0) throw new Error(failed.join('; '));
}

/** Whether NVIDIA's multi-process service runs here; this check does not start it. */
function mpsRuns() {
  return readdirSync('/proc').some((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/comm`, 'utf8').startsWith('nvidia-cuda-mps');
    } catch {
      return false; // it has left
    }
  });
}
