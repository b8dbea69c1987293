import { InferError } from '../shared/errors.ts';
import type { GlobalThreads } from '../worker/engine/backend/onnx/c-api/api.ts';

/** What `--backend-config` says about ONNX Runtime. */
export interface BackendSettings {
  /** Rows that completion sets for a model that can batch; undefined for the default. */
  readonly defaultMaxBatchSize: number | undefined;
  /** Threads that all models share; undefined where each has its own. */
  readonly globalThreads: GlobalThreads | undefined;
}

const KEYS = ['default-max-batch-size', 'enable-global-threadpool', 'intra_op_thread_count', 'inter_op_thread_count'];
const MAX_ROWS = 2 ** 31 - 1;
const MAX_THREADS = 1024;

/**
 * Settings in Triton's form, `onnxruntime,KEY=VALUE`; `,KEY=VALUE` or `KEY=VALUE` is for every backend.
 * @throws InferError INVALID_ARGUMENT for a backend or key that is not known, and values that do not fit
 */
export function parseBackendConfig(texts: readonly string[]): BackendSettings {
  const values = new Map<string, string>();
  for (const text of texts) {
    const { key, value } = parseSetting(text);
    values.set(key, value);
  }
  const shared = values.get('enable-global-threadpool') ?? '0';
  if (!['0', '1', 'true', 'false'].includes(shared)) {
    throw refusal(`enable-global-threadpool expects 0 or 1, got "${shared}"`);
  }
  const intraOp = numberOf(values, 'intra_op_thread_count', MAX_THREADS);
  const interOp = numberOf(values, 'inter_op_thread_count', MAX_THREADS);
  const isShared = shared === '1' || shared === 'true';
  if (!isShared && (intraOp !== undefined || interOp !== undefined)) {
    throw refusal('thread counts go with enable-global-threadpool=1; without it they are parameters of each model');
  }
  return {
    defaultMaxBatchSize: numberOf(values, 'default-max-batch-size', MAX_ROWS),
    globalThreads: isShared ? { intraOp: intraOp ?? 0, interOp: interOp ?? 0 } : undefined,
  };
}

function parseSetting(text: string): { key: string; value: string } {
  const [, backend = '', key = '', value] = /^(?:([^,=]*),)?([^,=]+)=(.*)$/.exec(text) ?? [];
  if (value === undefined) throw refusal(`expected onnxruntime,KEY=VALUE, got "${text}"`);
  if (backend !== '' && backend !== 'onnxruntime') {
    throw refusal(`backend "${backend}" is not supported; supported is onnxruntime`);
  }
  if (!KEYS.includes(key)) throw refusal(`"${key}" is not supported; supported are ${KEYS.join(', ')}`);
  return { key, value };
}

function numberOf(values: ReadonlyMap<string, string>, key: string, max: number): number | undefined {
  const text = values.get(key);
  if (text === undefined) return undefined;
  if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
  throw refusal(`${key} expects a whole number from 0 to ${max}, got "${text}"`);
}

function refusal(what: string): InferError {
  return new InferError('INVALID_ARGUMENT', `--backend-config: ${what}`);
}
