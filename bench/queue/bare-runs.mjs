// `node bare-runs.mjs MODEL_FILE SECONDS`: the package alone, one thread, one run after the other, with the input of the lanes.
// Prints `ready`, waits for a line, and prints how many runs a second there were.
import { once } from 'node:events';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { TOKENS } from './tokens.mjs';

const [file, seconds] = process.argv.slice(2);
const session = await InferenceSession.create(file, { intraOpNumThreads: 1, interOpNumThreads: 1 });
const feeds = Object.fromEntries(
  TOKENS.map(({ name, shape, data }) => [name, new Tensor('int64', new BigInt64Array(data.buffer), shape)]),
);
await run(1);
process.stdout.write('ready\n');
await once(process.stdin, 'data');
const [runs, ms] = await run(Number(seconds));
process.stdout.write(`${(runs * 1000) / ms}\n`);
process.exit(0);

async function run(forSeconds) {
  const startedMs = performance.now();
  let runs = 0;
  let ms = 0;
  while (ms < forSeconds * 1000) {
    await session.run(feeds);
    runs += 1;
    ms = performance.now() - startedMs;
  }
  return [runs, ms];
}
