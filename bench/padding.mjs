// `node bench/padding.mjs`: what padding brings to texts of mixed lengths on MiniLM, in one process and without HTTP. The
// same requests, from so many clients at once, against one model under five configs in turn: no padding, padding with
// powers of two, with buckets, with every run as long as its bucket, and everything as long as the longest text may be.
// Once for texts as long as questions and paragraphs, once for short ones.
//   CLIENTS=64 SECONDS=3 REPEATS=3 node bench/padding.mjs
// Writes bench/results/padding.json. Ratios are to the way without padding in the same repeat; CPU time is that of the
// whole process, which other programs on the machine disturb less than the rate.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const { createEngine } = await import('../dist/worker/engine/create-engine.js');
const { createCApiBackend } = await import('../dist/worker/engine/backend/onnx/c-api/c-api-backend.js');
const { Call } = await import('../dist/shared/infer/call.js');

const CLIENTS = Number(process.env.CLIENTS ?? 64);
const SECONDS = Number(process.env.SECONDS ?? 3);
const REPEATS = Number(process.env.REPEATS ?? 3);

/** Lengths in tokens, most of them around the median, few near the longest (log-normal). */
const MIXES = {
  paragraphs: { median: 24, longest: 128, buckets: '16,32,64,128' },
  queries: { median: 8, longest: 32, buckets: '8,16,32' },
};

const INPUTS = { 'padding.inputs': 'input_ids=0, attention_mask=mask, token_type_ids=0' };
const ROUND_UP = { ...INPUTS, 'padding.round_up': 'true' };
const waysOf = ({ longest, buckets }) => ({
  none: {},
  powers_of_two: INPUTS,
  buckets: { ...INPUTS, 'padding.length_buckets': buckets },
  rounded_up: { ...ROUND_UP, 'padding.length_buckets': buckets },
  all_to_longest: { ...ROUND_UP, 'padding.length_buckets': String(longest) },
});

const silent = {
  debug() {},
  info() {},
  warn: (fields, event) => console.log('warning:', event, fields),
  error: console.error,
};

const mixes = [];
for (const [name, mix] of Object.entries(MIXES)) mixes.push({ mix: name, ...(await compare(mix)) });
const results = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.versions.node, clients: CLIENTS, mixes };
writeFileSync(join(root, 'bench', 'results', 'padding.json'), `${JSON.stringify(results, null, 2)}\n`);
process.exit(0);

/** Every way in turn, so often; medians of what each repeat gave. */
async function compare(mix) {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-padding-'));
  const ways = waysOf(mix);
  for (const [way, parameters] of Object.entries(ways)) writeModel(folder, way, parameters);
  const engine = await createEngine({ repositories: [folder], backend: createCApiBackend(), logger: silent });
  const texts = makeTexts(mix);
  const turns = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (const way of Object.keys(ways)) turns[way].push(await turn(engine, way, texts));
  }
  await engine.close(1000);
  rmSync(folder, { recursive: true, force: true });
  const rows = Object.entries(turns).map(([way, done]) => {
    const toNone = (valueOf) => median(done.map((each, repeat) => valueOf(each) / valueOf(turns.none[repeat])));
    return {
      way,
      requestsPerSecond: round(median(done.map((each) => each.rate))),
      rateToNone: round(
        toNone((each) => each.rate),
        2,
      ),
      cpuMsPerRequest: round(median(done.map((each) => each.cpuMs / each.rows)), 2),
      cpuToNone: round(
        toNone((each) => each.cpuMs / each.rows),
        2,
      ),
      rowsPerRun: round(median(done.map((each) => each.rows / each.runs)), 1),
      padding: round(median(done.map((each) => (each.elements === 0 ? 0 : each.padded / each.elements))), 3),
    };
  });
  console.table(rows);
  const lengths = texts.map(({ length }) => length).toSorted((a, b) => a - b);
  return { tokens: { min: lengths[0], median: median(lengths), max: lengths.at(-1) }, rows };
}

/** One instance, so that what is compared is what a run makes of its rows. */
function writeModel(folder, way, parameters) {
  const source = join(root, 'examples', 'models', 'minilm');
  mkdirSync(join(folder, way));
  symlinkSync(join(source, '1'), join(folder, way, '1'));
  copyFileSync(join(source, 'config.json'), join(folder, way, 'config.json'));
  const tensor = (name) => `{ name: "${name}" data_type: TYPE_INT64 dims: [ -1 ] }`;
  const entries = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  const text = `max_batch_size: 32 dynamic_batching { } instance_group [ { count: 1 } ]
input [ ${['input_ids', 'attention_mask', 'token_type_ids'].map(tensor).join(', ')} ]
output { name: "sentence_embedding" data_type: TYPE_FP32 dims: [ 384 ] }
${entries.join('\n')}`;
  writeFileSync(join(folder, way, 'config.pbtxt'), text);
}

/** The same for every run of the bench. */
function makeTexts(mix) {
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return Array.from({ length: 2000 }, () => {
    const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
    const length = Math.max(3, Math.min(mix.longest, Math.round(mix.median * Math.exp(0.7 * normal))));
    const ids = BigInt64Array.from({ length }, () => BigInt(1000 + Math.floor(random() * 20_000)));
    const tensor = (name, data) => ({ name, datatype: 'INT64', shape: [1, length], data: new Uint8Array(data.buffer) });
    const inputs = [
      tensor('input_ids', ids),
      tensor('attention_mask', new BigInt64Array(length).fill(1n)),
      tensor('token_type_ids', new BigInt64Array(length)),
    ];
    return { length, inputs };
  });
}

async function turn(engine, way, texts) {
  const stats = engine.stats().find(({ model }) => model === way);
  const before = figures(stats);
  const cpuBefore = process.cpuUsage();
  const startMs = performance.now();
  const endMs = startMs + SECONDS * 1000;
  let next = 0;
  const client = async () => {
    while (performance.now() < endMs) await send(engine, way, texts[next++ % texts.length].inputs);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  const after = figures(stats);
  const change = Object.fromEntries(Object.keys(after).map((name) => [name, after[name] - before[name]]));
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ...change, rate: (change.rows * 1000) / (performance.now() - startMs), cpuMs: (user + system) / 1000 };
}

function figures(stats) {
  return {
    rows: stats.inferenceCount,
    runs: stats.executionCount,
    elements: stats.batchElements,
    padded: stats.paddedElements,
  };
}

function send(engine, model, inputs) {
  const nowMs = performance.now();
  return engine.infer(
    { id: '', model, version: '', inputs, outputs: [], parameters: {} },
    new Call('bench', nowMs, nowMs + 60_000),
  );
}

function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

function round(value, digits = 0) {
  return Number(value.toFixed(digits));
}
