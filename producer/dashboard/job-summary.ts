import { isRecord } from '../../shared/wire/record.ts';
import { jobContent } from '../../shared/wire/signed-job.ts';

/**
 * What the dashboard shows of a job's data: which requests it carries, their shapes and sizes, never what is in the
 * tensors. A field is shown when its name is on the list; of everything else only type and size are told. So a job that
 * somebody else put on the queue, or a field that is new, stays closed until it is added here.
 */
export function summarizeJobData(data: unknown): unknown {
  const content = jobContent(data);
  const isBundle = isRecord(content) && Array.isArray(content.items);
  return summarize(isBundle ? withCount(content) : content, '', 0);
}

/** What it is about comes first: the items may be many, and the page shows them folded. */
function withCount({ model, items, ...rest }: Record<string, unknown>): object {
  const list: unknown[] = Array.isArray(items) ? items : [];
  return { model, requests: list.length, firstInputs: inputsOf(list[0]), ...rest, items };
}

/** The inputs of a request in words: `pixels FP32 [1,64]`. */
function inputsOf(item: unknown): string[] {
  const inputs: unknown[] = isRecord(item) && Array.isArray(item.inputs) ? item.inputs : [];
  return inputs.slice(0, MAX_ITEMS).map((input) => {
    const { name, datatype, shape } = isRecord(input) ? input : {};
    const dims: unknown[] = Array.isArray(shape) ? shape.slice(0, MAX_ITEMS) : [];
    return [name, datatype].filter((text) => typeof text === 'string').join(' ') + ` [${dims.map(Number).join(',')}]`;
  });
}

const SHOWN_FIELDS = new Set([
  'v',
  'producer',
  'bundle',
  'model',
  'version',
  'sequence',
  'callId',
  'requestId',
  'priority',
  'deadlineMs',
  'outputs',
  'to',
  'name',
  'datatype',
  'shape',
  'byteLength',
  'offset',
  'requests',
  'firstInputs',
  'succeeded',
  'failed',
  'dropped',
  'refused',
  'firstError',
]);
const MAX_DEPTH = 6;
const MAX_ITEMS = 64;
const MAX_TEXT = 200;

function summarize(value: unknown, field: string, depth: number): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value;
  if (isLeaf(value)) return SHOWN_FIELDS.has(field) ? shorten(value) : describe(value);
  if (depth >= MAX_DEPTH) return describe(value);
  if (Array.isArray(value)) return summarizeList(value, field, depth);
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  return summarizeObject(value, depth);
}

function summarizeList(list: readonly unknown[], field: string, depth: number): unknown {
  if (list.every(isLeaf) && !SHOWN_FIELDS.has(field)) return describe(list);
  const shown = list.slice(0, MAX_ITEMS).map((item) => summarize(item, field, depth + 1));
  return list.length > MAX_ITEMS ? [...shown, `and ${list.length - MAX_ITEMS} more`] : shown;
}

function summarizeObject(object: object, depth: number): unknown {
  const entries = Object.entries(object);
  const shown = entries.slice(0, MAX_ITEMS).map(([field, value]): [string, unknown] => {
    return [shorten(field), summarize(value, field, depth + 1)];
  });
  if (entries.length > MAX_ITEMS) shown.push(['…', `and ${entries.length - MAX_ITEMS} more`]);
  return Object.fromEntries(shown);
}

function isLeaf(value: unknown): value is string | number | bigint {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint';
}

function shorten<T>(value: T): T | string {
  return typeof value === 'string' && value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value;
}

function describe(value: unknown): string {
  if (typeof value === 'string') return `text of ${value.length} characters`;
  if (Array.isArray(value)) return `list of ${value.length}`;
  return typeof value;
}
