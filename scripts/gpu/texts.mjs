// What ONNX Runtime and CUDA say when something goes wrong at run time, word for word.
import { createRequire } from 'node:module';
import { textOf } from './report.mjs';
import { createBackend, inputOf, openModel, run, shapeOf, writeModel } from './sessions.mjs';

const LIMIT_BYTES = 128 * 1024 * 1024;
/** Each layer wants 4 KiB a row. */
const TOO_MANY_ROWS = 40_000;

export async function measureTexts(report) {
  const path = writeModel('matrix');
  const ort = createRequire(import.meta.url)('onnxruntime-node');
  ort.env.logLevel = 'fatal';
  for (const deviceId of [99, -1]) {
    const key = deviceId === 99 ? 'device99' : 'deviceMinus1';
    await report.attempt(key, async () => {
      const session = await ort.InferenceSession.create(path, { executionProviders: [{ name: 'cuda', deviceId }] });
      await session.release();
      return { text: null, note: 'a session was created' };
    });
  }
  const backend = createBackend();
  await report.attempt('outOfMemoryAtRun', async () => {
    const model = await openModel(backend, path, { gpu_mem_limit: LIMIT_BYTES });
    const [instance] = model.instances;
    const shape = shapeOf('matrix', TOO_MANY_ROWS);
    const text = await run(instance, shape, inputOf(shape)).then(() => null, wholeText);
    const small = shapeOf('matrix', 1);
    const after = await run(instance, small, inputOf(small)).then(() => 'runs', textOf);
    await model.close();
    return { limitBytes: LIMIT_BYTES, rows: TOO_MANY_ROWS, text, smallRunAfterwards: after };
  });
  await report.attempt('outOfMemoryAtLoad', async () => {
    const opened = openModel(backend, path, { gpu_mem_limit: 1024 * 1024 });
    return { text: await opened.then((model) => model.close().then(() => 'the session was created'), wholeText) };
  });
}

/** What Millrace makes of it, and what it was made from. */
function wholeText(error) {
  const cause = error?.cause === undefined ? '' : `; from: ${textOf(error.cause)}`;
  return `${textOf(error)}${cause}`;
}
