// The same requests to an engine in this process, with no queue.
import { createEngine } from '../../dist/worker/engine/create-engine.js';
import { createCApiBackend } from '../../dist/worker/engine/backend/onnx/c-api/c-api-backend.js';
import { Call } from '../../dist/shared/infer/call.js';
import { MODEL } from './lanes.mjs';

const silent = { debug() {}, info() {}, warn() {}, error: console.error };
const TIMEOUT_MS = 60_000;
/** Requests one after the other, before those that count: V8 compiles for seconds. */
const WARM_UP = 20_000;

/** Times in ms of requests that come at `rate` a second. */
export async function measureInProcess(repository, { bytes, rate, seconds }) {
  const engine = await createEngine({ repositories: [repository], backend: createCApiBackend(), logger: silent });
  const data = Buffer.alloc(bytes, 1);
  const inputs = [{ name: 'INPUT', datatype: 'FP32', shape: [1, bytes / 4], data }];
  const request = { id: '', model: MODEL, version: '', inputs, outputs: [], parameters: {} };
  let count = 0;
  const infer = async () => {
    const nowMs = performance.now();
    await engine.infer(request, new Call(`b${(count += 1)}`, nowMs, nowMs + TIMEOUT_MS));
    return performance.now() - nowMs;
  };
  for (let run = 0; run < WARM_UP; run++) await infer();
  const times = [];
  while (times.length < rate * seconds) {
    await new Promise((resolve) => setTimeout(resolve, 1000 / rate));
    times.push(await infer());
  }
  await engine.close(1000);
  times.sort((a, b) => a - b);
  return { p50: Math.round(times[times.length >> 1] * 100) / 100 };
}
