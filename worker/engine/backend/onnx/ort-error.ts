import { dirname } from 'node:path';
import { realpathSync } from 'node:fs';
import { InferError, type ErrorCode } from '../../../../shared/errors.ts';

/** ONNX Runtime's own error code for arguments that do not fit the model. */
const ORT_INVALID_ARGUMENT = 2;

/** What ONNX Runtime said. `code` is its own number; undefined where only the text is known. */
export interface OrtFailure {
  readonly code: number | undefined;
  readonly text: string;
}

/** The error for a model file that could not be loaded. */
export function loadError(failure: OrtFailure, modelPath: string): InferError {
  return new InferError(
    isOutOfMemory(failure.text) ? 'RESOURCE_EXHAUSTED' : 'INVALID_ARGUMENT',
    `the model file could not be loaded: ${cleanText(failure.text, modelPath)}`,
    { cause: failure },
  );
}

/** The error for a run that failed. */
export function runError(failure: OrtFailure, stopRequested: boolean): InferError {
  if (stopRequested && /terminate flag/i.test(failure.text)) {
    return new InferError('CANCELLED', 'the run was stopped', { cause: failure });
  }
  return new InferError(codeOf(failure), `the model could not run: ${cleanText(failure.text)}`, { cause: failure });
}

/** Whether the input was refused before anything of the model ran. */
export function isRefusal(failure: OrtFailure): boolean {
  return REFUSALS.test(failure.text);
}

function codeOf(failure: OrtFailure): ErrorCode {
  if (isOutOfMemory(failure.text)) return 'RESOURCE_EXHAUSTED';
  return failure.code === ORT_INVALID_ARGUMENT || REFUSALS.test(failure.text) ? 'INVALID_ARGUMENT' : 'INTERNAL';
}

/** How ONNX Runtime begins when the input does not fit the model's own declaration. */
const REFUSALS =
  /^(?:Got invalid dimensions for input|Invalid rank for input|Unexpected input data type|Missing Input)/;

function isOutOfMemory(text: string): boolean {
  return /failed to allocate memory|bad.?alloc|CUDA failure 2:|(?:CUDNN|CUBLAS)_STATUS_ALLOC_FAILED/i.test(text);
}

/** The folders of the machine and the lines of ONNX Runtime's source say nothing to a client; the rest stays. */
function cleanText(text: string, modelPath?: string): string {
  let clean = text;
  if (modelPath !== undefined) clean = withoutModelPath(clean, modelPath);
  return clean
    .replace(/ (?:resolved path|allowed directory): "[^"]*"/g, '')
    .replace(/(?:\S*[\\/])?[\w.-]+\.(?:cc|cpp|h|cu):\d+ /g, '')
    .replace(/\bonnxruntime::[\w:~<>]+\((?:[^()]|\([^()]*\))*\)(?: const)? /g, '')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, MAX_TEXT);
}

const MAX_TEXT = 1000;

function withoutModelPath(text: string, modelPath: string): string {
  let clean = text.replace(`Load model from ${modelPath} failed:`, '');
  for (const folder of [dirname(modelPath), resolvedFolder(modelPath)]) {
    clean = clean.replaceAll(`${folder}/`, '').replaceAll(folder, '.');
  }
  return clean;
}

/** ONNX Runtime resolves links before it compares folders, and prints what it found. */
function resolvedFolder(modelPath: string): string {
  try {
    return realpathSync(dirname(modelPath));
  } catch {
    // A folder that is not there has no other name that could appear in the text.
    return dirname(modelPath);
  }
}
