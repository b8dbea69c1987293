// The memory of a process and of its sessions, and whether it comes back: on closing, on leaving, after SIGKILL in mid-run.
import { dist } from './places.mjs';
import { QUICK } from './parts.mjs';
import { startHolder } from './holder.mjs';
import { rounded } from './report.mjs';
import { GPU } from './sessions.mjs';

const { openCudaRuntime } = await import(dist('worker/engine/backend/onnx/gpu/cuda-runtime.js'));

const MIB = 1024 * 1024;
/** What other processes of the card may take or give meanwhile. */
const SLACK_BYTES = 16 * MIB;
const BACK_MS = 10_000;
const ROWS = 8;

export async function measureMemory(report) {
  const runtime = openCudaRuntime();
  const free = () => runtime.freeBytes(GPU);
  const freeAtFirst = free();
  const used = () => freeAtFirst - free();
  report.note('freeBytes', freeAtFirst);
  const holder = startHolder('matrix', ROWS);
  const first = await holder.ask('open');
  await holder.ask('run 300');
  report.note('firstOpenMs', rounded(first.openMs));
  report.note('processAndSessionBytes', used());
  const second = await holder.ask('open');
  report.note('secondOpenMs', rounded(second.openMs));
  report.note('withTwoSessionsBytes', used());
  await holder.ask('close');
  await holder.ask('close');
  report.note('processAloneBytes', used());
  holder.kill('SIGTERM');
  report.note('left', await holder.ended);
  report.note('afterLeaving', await untilBack(used));
  await report.attempt('killedInMidRun', async () => {
    const victim = startHolder('matrix', ROWS);
    await victim.ask('open');
    const running = victim.ask('run 60000').catch((error) => error.message);
    await new Promise((resolve) => setTimeout(resolve, QUICK ? 200 : 1500));
    victim.kill('SIGKILL');
    const text = await running;
    const after = await untilBack(used);
    const next = startHolder('matrix', ROWS);
    const { openMs } = await next.ask('open');
    const { runs } = await next.ask('run 200');
    next.kill('SIGKILL');
    await next.ended;
    return { text, ...after, nextSessionMs: rounded(openMs), nextSessionRuns: runs };
  });
}

/** The driver takes a moment to free what a process had. */
async function untilBack(used) {
  const startedMs = performance.now();
  while (used() > SLACK_BYTES && performance.now() - startedMs < BACK_MS) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { back: used() <= SLACK_BYTES, keptBytes: used(), tookMs: Math.round(performance.now() - startedMs) };
}
