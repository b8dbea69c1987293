import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InferError } from '../../../shared/errors.ts';
import { Call } from '../../../shared/infer/call.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import { NO_PARAMETERS } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import type { EngineOptions } from '../../../worker/engine/create-engine.ts';
import { createEngine } from '../../../worker/engine/create-engine.ts';
import type { Engine } from '../../../worker/engine/engine.ts';

export interface LogEntry {
  readonly level: string;
  readonly event: string;
  readonly fields: Record<string, unknown>;
}

export interface EngineUnderTest {
  readonly engine: Engine;
  readonly log: readonly LogEntry[];
  close(): Promise<void>;
}

/** An engine on ONNX Runtime over repositories that the test made. */
export async function startEngine(
  repositories: readonly string[],
  options: Partial<EngineOptions> = {},
): Promise<EngineUnderTest> {
  const log: LogEntry[] = [];
  const engine = await createEngine({
    repositories,
    backend: createCApiBackend(),
    logger: recordingLogger(log),
    instanceSlots: 2,
    ...options,
  });
  return { engine, log, close: () => engine.close(2000) };
}

function recordingLogger(log: LogEntry[]): Logger {
  const record = (level: string) => (fields: object, event: string) => {
    log.push({ level, event, fields: fields as Record<string, unknown> });
  };
  return { debug: record('debug'), info: record('info'), warn: record('warn'), error: record('error') };
}

/** A folder that `remove` takes away again. */
export function temporaryFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'millrace-engine-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export interface Sent {
  readonly call: Call;
  readonly result: Promise<InferResponse>;
}

/** Sends a request; a rejection is kept for the test to look at. */
export function send(
  engine: Engine,
  model: string,
  inputs: readonly Tensor[],
  options: Partial<InferRequest> & { timeoutMs?: number; priority?: number } = {},
): Sent {
  const { timeoutMs = 15_000, priority = 0, ...rest } = options;
  const nowMs = performance.now();
  const call = new Call(`call-${model}`, nowMs, nowMs + timeoutMs, priority);
  const result = engine.infer(
    { id: '', model, version: '', inputs, outputs: [], parameters: NO_PARAMETERS, ...rest },
    call,
  );
  result.catch(() => {});
  return { call, result };
}

export function f32(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'FP32', shape, data: new Uint8Array(new Float32Array(values).buffer) };
}

export function i64(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: 'INT64', shape, data: new Uint8Array(new BigInt64Array(values.map(BigInt)).buffer) };
}

export function strings(name: string, shape: readonly number[], values: readonly string[]): Tensor {
  const parts = values.flatMap((value) => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(bytes.length);
    return [length, bytes];
  });
  return { name, datatype: 'BYTES', shape, data: new Uint8Array(Buffer.concat(parts)) };
}

export function floatsOf(tensor: Tensor | undefined): number[] {
  return tensor ? [...new Float32Array(new Uint8Array(tensor.data).buffer)] : [];
}

export function intsOf(tensor: Tensor | undefined): number[] {
  return tensor ? [...new BigInt64Array(new Uint8Array(tensor.data).buffer)].map(Number) : [];
}

/** The values of the first output. */
export async function floatsFrom(sent: Sent): Promise<number[]> {
  return floatsOf((await sent.result).outputs[0]);
}

export async function intsFrom(sent: Sent): Promise<number[]> {
  return intsOf((await sent.result).outputs[0]);
}

/** The code that the request failed with, or `fulfilled`. */
export function codeOf(sent: Sent): Promise<string> {
  return sent.result.then(
    () => 'fulfilled',
    (error: unknown) => (error instanceof InferError ? error.code : String(error)),
  );
}

export function statsOf(engine: Engine, model: string) {
  const stats = engine.stats().find((candidate) => candidate.model === model);
  if (!stats) throw new Error(`no statistics of ${model}`);
  return stats;
}

/** Executions by batch size since the engine started. */
export function batchSizesOf(engine: Engine, model: string): Record<number, number> {
  return Object.fromEntries([...statsOf(engine, model).batchSizes].map(([size, { executions }]) => [size, executions]));
}
