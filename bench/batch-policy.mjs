// `node bench/batch-policy.mjs`: what it costs to decide which requests run next, with 100 to 10,000 of them waiting.
// No server and no model: the queue and the policy alone. Writes bench/results/batch-policy.json and .md.
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { installIfStale, root } from '../scripts/install.mjs';

installIfStale();
const { buildIfStale } = await import('../scripts/build.mjs');
buildIfStale();
const schedule = join(root, 'dist', 'worker', 'engine', 'schedule');
const { decide } = await import(join(schedule, 'batch-policy.js'));
const { LeveledQueue } = await import(join(schedule, 'leveled-queue.js'));
const { PendingRequest } = await import(join(schedule, 'pending-request.js'));
const { QueueLevels } = await import(join(schedule, 'queue-levels.js'));
const { RequestQueue } = await import(join(schedule, 'request-queue.js'));
const { WaitingGroups } = await import(join(schedule, 'waiting-groups.js'));

const COUNTS = [100, 1000, 10_000];
const LIMITS = { maxRows: 16, preferredRows: [16], delayMs: 2 };
const MOOD = { patient: true, draining: false, othersWait: true };
const NO_LIMITS = { maxQueueSize: Infinity, timeoutMs: Infinity, allowsOverride: true, delays: false };
const DECISIONS = 20_000;
const REPEATS = 7;

/** What waits: how many shapes and levels there are, and how long a request may wait. */
const LAYOUTS = [
  { name: 'one shape', shapes: () => 1 },
  { name: 'twenty shapes', shapes: () => 20 },
  { name: 'every request of another shape', shapes: (count) => count },
  { name: 'five priority levels', shapes: () => 1, levels: 5, timeoutMs: Infinity },
  { name: 'five levels, each request with a time limit of its own', shapes: () => 1, levels: 5, timeoutMs: 60_000 },
  { name: 'five levels, twenty shapes, time limits', shapes: () => 20, levels: 5, timeoutMs: 60_000 },
];

const rows = LAYOUTS.map((layout) => ({
  layout: layout.name,
  ...Object.fromEntries(COUNTS.map((count) => [count, measure(layout, count)])),
}));
writeResults();

/** The best of several turns: whatever else runs on the machine only ever adds. */
function measure(layout, count) {
  const turns = Array.from({ length: REPEATS }, () => turn(layout, count));
  return {
    decisionUs: round(Math.min(...turns.map(({ decisionUs }) => decisionUs))),
    requestUs: round(Math.min(...turns.map(({ requestUs }) => requestUs))),
  };
}

/** Always so many waiting: each decision's requests leave and as many enter behind them. */
function turn({ shapes, levels = 0, timeoutMs }, count) {
  const policy = levels > 0 && {
    levels,
    defaultLevel: levels,
    defaultPolicy: { ...NO_LIMITS, timeoutMs },
    policies: new Map(),
    reorders: true,
  };
  const queueLevels = policy ? new QueueLevels(policy) : undefined;
  const waiting = new WaitingGroups(LIMITS.maxRows, (key) =>
    queueLevels ? new LeveledQueue(key, queueLevels) : new RequestQueue(key),
  );
  let nowMs = 0;
  let made = 0;
  const enter = () => {
    made += 1;
    const parameters = { timeout: 1_000_000 + ((made * 7919) % 50_000_000) };
    const call = { priority: (made % Math.max(1, levels)) + 1 };
    const key = shapes(count) === 1 ? '' : `x\n${made % shapes(count)},\n`;
    waiting.add(new PendingRequest({ parameters }, call, [], 1, key, nowMs, undefined, undefined));
  };
  while (waiting.count < count) enter();
  let deciding = 0n;
  const started = process.hrtime.bigint();
  for (let i = 0; i < DECISIONS; i += 1) {
    nowMs += 0.5;
    const before = process.hrtime.bigint();
    queueLevels?.takeExpired(nowMs);
    const aged = queueLevels?.promoteAged(nowMs, LIMITS.maxRows);
    if (aged) waiting.update(aged);
    const group = waiting.first;
    const { run } = decide(group, nowMs + LIMITS.delayMs, LIMITS, MOOD);
    deciding += process.hrtime.bigint() - before;
    waiting.take(group, run);
    queueLevels?.noteRun();
    while (waiting.count < count) enter();
  }
  const total = process.hrtime.bigint() - started;
  const requests = made - count;
  return { decisionUs: Number(deciding) / DECISIONS / 1000, requestUs: Number(total - deciding) / requests / 1000 };
}

function writeResults() {
  const [{ model }] = cpus();
  const machine = {
    cpu: model,
    cores: cpus().length,
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  };
  const run = { decisions: DECISIONS, repeats: REPEATS, maxRows: LIMITS.maxRows };
  const results = join(root, 'bench', 'results', 'batch-policy');
  writeFileSync(`${results}.json`, `${JSON.stringify({ machine, run, rows }, null, 2)}\n`);
  const table = (field) =>
    rows.map((row) => `| ${row.layout} | ${COUNTS.map((count) => row[count][field]).join(' | ')} |`).join('\n');
  const head = `| ${COUNTS.map((count) => `${count.toLocaleString('en')} waiting`).join(' | ')} |`;
  const text = `${Object.entries(machine)
    .map(([key, value]) => `${key}: ${value}`)
    .join(' · ')}

Batches of up to ${LIMITS.maxRows} rows, ${DECISIONS.toLocaleString('en')} decisions in a row with the queue always as full, the best of ${REPEATS} turns, in µs.

One decision, for a whole batch (two readings of the clock included):

| waiting | ${head.slice(2)}
| --- | ${COUNTS.map(() => '---').join(' | ')} |
${table('decisionUs')}

A request's way into the queue and out of it (making the request included):

| waiting | ${head.slice(2)}
| --- | ${COUNTS.map(() => '---').join(' | ')} |
${table('requestUs')}
`;
  writeFileSync(`${results}.md`, text);
  console.log(text);
}

function round(value) {
  return Number(value.toPrecision(2));
}
