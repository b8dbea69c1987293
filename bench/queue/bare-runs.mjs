// `node bare-runs.mjs MODEL_FILE SECONDS`: the package alone, one thread, one run after the other, with the input of the lanes.
// Prints how many runs a second there were, after a second that does not count.
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { TOKENS } from './tokens.mjs';

const [file, seconds] = process.argv.slice(2);
const session = await InferenceSession.create(file, { intraOpNumThreads: 1, interOpNumThreads: 1 });
const feeds = Object.fromEntries(
  TOKENS.map(({ name, shape, data }) => [name, new Tensor('int64', new BigInt64Array(data.buffer), shape)]),
);
await runsPerSecond(1);
console.log(await runsPerSecond(Number(seconds)));

async function runsPerSecond(forSeconds) {
  const startedMs = performance.now();
  let runs = 0;
  let ms = 0;
  while (ms < forSeconds * 1000) {
    await session.run(feeds);
    runs += 1;
    ms = performance.now() - startedMs;
  }
  return (runs * 1000) / ms;
}
