// The parts of the check, in the order in which they run: what matters most comes first, as the time may run out.
import { Report, textOf } from './report.mjs';

/** By name: the longest time, and what measures. Each notes what it finds in a report of its own. */
export const PARTS = {
  matrix: { limitMs: 70_000, measure: async (report) => (await import('./bare.mjs')).measureBare('matrix', report) },
  vision: { limitMs: 100_000, measure: async (report) => (await import('./bare.mjs')).measureBare('vision', report) },
  serve: { limitMs: 90_000, measure: async (report) => (await import('./served.mjs')).measureServe(report) },
  queue: { limitMs: 90_000, measure: async (report) => (await import('./served.mjs')).measureQueue(report) },
  memory: { limitMs: 50_000, measure: async (report) => (await import('./memory.mjs')).measureMemory(report) },
  fallback: { limitMs: 40_000, measure: async (report) => (await import('./fallback.mjs')).measureFallback(report) },
  texts: { limitMs: 40_000, measure: async (report) => (await import('./texts.mjs')).measureTexts(report) },
  processes: { limitMs: 50_000, measure: async (report) => (await import('./processes.mjs')).measureProcesses(report) },
  nvrtc: { limitMs: 40_000, measure: async (report) => (await import('./nvrtc.mjs')).measureWithoutNvrtc(report) },
  smi: { limitMs: 25_000, measure: async (report) => (await import('./smi.mjs')).measureSmi(report) },
};

/** In the process that `run.mjs` has started for it. */
export async function measurePart(name) {
  const report = Report.inFile(process.env.MILLRACE_GPU_CHECK_OUT);
  try {
    await PARTS[name].measure(report);
    if (process.env.MILLRACE_GPU_CHECK_OUT === undefined) console.log(JSON.stringify(report.values, null, 2));
    process.exit(0); // whatever is still open is the part's own
  } catch (error) {
    report.note('error', textOf(error));
    process.stderr.write(`${error?.stack ?? error}\n`);
    process.exit(1);
  }
}

/** Few and short runs: to see that every part works. */
export const QUICK = process.env.MILLRACE_GPU_CHECK_QUICK !== undefined;
