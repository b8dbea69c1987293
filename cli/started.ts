import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ModelCatalog, ModelState } from '../shared/infer/ports.ts';
import type { ReadyModel } from '../shared/model/ready-model.ts';
import { shownNames } from '../shared/tensor/text.ts';
import { VERSION } from './version.ts';

export interface Started {
  readonly command: string;
  /** Where HTTP is served; undefined where it is not. */
  readonly url: string | undefined;
  /** host:port of gRPC; undefined where it is not served. */
  readonly grpcAddress?: string | undefined;
  readonly metricsUrl: string | undefined;
  readonly catalog: ModelCatalog;
  /** What a model is for, where its files say so. */
  readonly profile?: (model: ReadyModel) => Promise<{ readonly task: string } | undefined>;
  /** Further lines, as label and text. */
  readonly more?: readonly (readonly [string, string])[];
}

/** Says on stdout, in a few lines that a person can act on, what is ready, where, and what to send. */
export async function printStarted(started: Started): Promise<void> {
  const { url, grpcAddress, metricsUrl, catalog } = started;
  const tasks = await tasksOf(started);
  const states = catalog.list();
  const asked = states.filter(({ state }) => state !== 'UNKNOWN');
  const rows: [string, string][] = asked.map((state) => ['model', describe(state, tasks.get(state.name))]);
  const waiting = states.filter(({ state }) => state === 'UNKNOWN').map(({ name }) => name);
  if (waiting.length > 0)
    rows.push(['models', `not loaded: ${shownNames(waiting)}; load one: millrace model load NAME`]);
  if (rows.length === 0) rows.push(['models', 'none yet; start a worker: millrace worker --model-repository=DIR']);
  if (url !== undefined) rows.push(['HTTP', `${url}  (a page to try it: ${url}/)`]);
  if (grpcAddress !== undefined) rows.push(['gRPC', grpcAddress]);
  if (metricsUrl !== undefined) rows.push(['metrics', metricsUrl]);
  for (const [label, text] of started.more ?? []) rows.push([label, text]);
  const lines = rows.map(([label, text]) => `  ${label.padEnd(9)} ${text}`);
  const example = url === undefined ? undefined : exampleCall(tasks, url);
  if (example !== undefined) lines.push('', 'Try it:', `  ${example}`);
  process.stdout.write(`Millrace ${VERSION}, ${started.command} is ready\n\n${lines.join('\n')}\n\n`);
}

/** The task of each ready model; undefined for one that takes tensors only. */
async function tasksOf({ catalog, profile }: Started): Promise<Map<string, string | undefined>> {
  const names = catalog.list().flatMap((state) => (state.state === 'READY' ? [state.name] : []));
  const tasks = new Map<string, string | undefined>();
  for (const name of names) {
    const known = await profile?.(catalog.resolve(name, '')).catch(() => undefined); // its first request says what is wrong
    tasks.set(name, known?.task);
  }
  return tasks;
}

function describe(state: ModelState, task: string | undefined): string {
  const version = state.version === undefined ? '' : ` version ${state.version}`;
  if (state.state !== 'READY') return `${state.name}${version} ${state.state}: ${state.reason}`;
  return `${state.name}${version} READY${task === undefined ? '' : `, ${task}`}`;
}

/** One line that sends a sample photo to the first model that takes photos; a plain question where there is none. */
function exampleCall(tasks: ReadonlyMap<string, string | undefined>, url: string): string | undefined {
  const photo = samplePhoto();
  for (const [name, task] of tasks) {
    if (task === 'image-classification' && photo !== undefined) {
      return `curl --data-binary @${photo} ${url}/models/${encodeURIComponent(name)}`;
    }
  }
  const [first] = tasks.keys();
  return first === undefined ? undefined : `curl ${url}/v2/models/${encodeURIComponent(first)}`;
}

/** The sample photo of the repository, as seen from the current folder. */
function samplePhoto(): string | undefined {
  for (const candidate of ['../examples/photos/coffee.png', '../../examples/photos/coffee.png']) {
    const path = fileURLToPath(new URL(candidate, import.meta.url));
    if (existsSync(path)) return relative(process.cwd(), path);
  }
  return undefined;
}
