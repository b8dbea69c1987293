import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ModelCatalog } from '../shared/infer/ports.ts';
import type { ReadyModel } from '../shared/model/ready-model.ts';
import { VERSION } from './version.ts';

export interface Started {
  readonly command: string;
  /** Where HTTP is served; undefined for a worker. */
  readonly url: string | undefined;
  readonly metricsUrl: string | undefined;
  readonly catalog: ModelCatalog;
  /** What a model is for, in words, where its files say so. */
  readonly taskOf?: (model: ReadyModel) => string | undefined;
  /** Further lines, as label and text. */
  readonly more?: readonly (readonly [string, string])[];
}

/** Says on stdout, in a few lines that a person can act on, what is ready, where, and what to send. */
export function printStarted(started: Started): void {
  const { url, metricsUrl } = started;
  const rows: [string, string][] = started.catalog.list().map((state) => {
    const version = state.version === undefined ? '' : ` version ${state.version}`;
    const task = state.state === 'READY' ? taskOf(started, state.name) : undefined;
    const note = state.state === 'READY' ? (task === undefined ? '' : `, ${task}`) : `: ${state.reason}`;
    return ['model', `${state.name}${version} ${state.state}${note}`];
  });
  if (url !== undefined) rows.push(['HTTP', `${url}  (a page to try it: ${url}/)`]);
  if (metricsUrl !== undefined) rows.push(['metrics', metricsUrl]);
  for (const [label, text] of started.more ?? []) rows.push([label, text]);
  const lines = rows.map(([label, text]) => `  ${label.padEnd(9)} ${text}`);
  const example = url === undefined ? undefined : exampleCall(started, url);
  if (example !== undefined) lines.push('', 'Try it:', `  ${example}`);
  process.stdout.write(`Millrace ${VERSION}, ${started.command} is ready\n\n${lines.join('\n')}\n\n`);
}

function taskOf(started: Started, name: string): string | undefined {
  return started.taskOf?.(started.catalog.resolve(name, ''));
}

/** One line to send a sample photo to the first model that takes photos; a plain question where there is none. */
function exampleCall(started: Started, url: string): string | undefined {
  const names = started.catalog.list().flatMap((state) => (state.state === 'READY' ? [state.name] : []));
  const photo = samplePhoto();
  const classifier = names.find((name) => taskOf(started, name) === 'image-classification');
  if (classifier !== undefined && photo !== undefined) {
    return `curl --data-binary @${photo} ${url}/models/${encodeURIComponent(classifier)}`;
  }
  const [first] = names;
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
