// One producer process: `node producer.mjs LANE REDIS_URL '{"callers":64,"bytes":64,"seconds":3,"rate":0}'`. A caller sends the
// next request when it has its answer; with a rate, requests leave at that many a second instead. Prints one line of JSON, for
// the seconds after a warm-up: requests, their latencies in ms, and this process' processor time in ms.
import { setFlagsFromString } from 'node:v8';
import { lanes, MODEL } from './lanes.mjs';

setFlagsFromString('--heap-growing-percent=300'); // as every process of Millrace, see cli/launch.ts; here for every lane

const [name, redisUrl, text] = process.argv.slice(2);
const { callers = 64, bytes = 64, seconds = 3, rate = 0, warmUpSeconds = 8, model = MODEL } = JSON.parse(text);
const tensor = Buffer.alloc(bytes, 1);

// V8 compiles for seconds, in which a slow load sends too little, and a service runs for days. So the warm-up sends short
// requests, many at once and, where what is measured leaves one by one, then one at a time.
process.stdout.write('warm\n');
const lane = await lanes[name](redisUrl, [...new Set([MODEL, model])]);
await drive({ forSeconds: warmUpSeconds });
if (rate > 0 || model !== MODEL) await drive({ forSeconds: warmUpSeconds, atOnce: 1 });
if (model !== MODEL) await drive({ forSeconds: 1, of: model });
process.stdout.write('begin\n');
const cpu = process.cpuUsage();
const startedMs = performance.now();
const latencies = await drive({ forSeconds: seconds, atRate: rate, of: model });
const elapsedMs = performance.now() - startedMs;
const { user, system } = process.cpuUsage(cpu);
latencies.sort((a, b) => a - b);
const quantile = (share) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))];
const figures = {
  requests: latencies.length,
  elapsedMs,
  p50: quantile(0.5),
  p99: quantile(0.99),
  cpuMs: (user + system) / 1000,
};
process.stdout.write(`${JSON.stringify(figures)}\n`);
await lane.close();
process.exit(0);

async function drive({ forSeconds, atOnce = callers, atRate = 0, of = MODEL }) {
  const endMs = performance.now() + forSeconds * 1000;
  const times = [];
  const once = async () => {
    const sentMs = performance.now();
    const answer = await lane.send(tensor, of);
    if (of === MODEL && answer.byteLength !== bytes) {
      throw new Error(`an answer of ${answer.byteLength} bytes, ${bytes} expected`);
    }
    times.push(performance.now() - sentMs);
  };
  if (atRate === 0) {
    const loop = async () => {
      while (performance.now() < endMs) await once();
    };
    await Promise.all(Array.from({ length: atOnce }, loop));
  } else {
    const open = [];
    for (let nextMs = performance.now(); nextMs < endMs; nextMs += 1000 / atRate) {
      const pause = nextMs - performance.now();
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
      open.push(once());
    }
    await Promise.all(open);
  }
  return times;
}
