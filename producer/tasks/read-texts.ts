import { InferError } from '../../shared/errors.ts';
import type { PreparedTexts } from '../preprocess/text/prepare-texts.ts';
import { inferOutput, type TaskCall } from './task-call.ts';
import { poolTokens, tokenVectors, type Vector } from './vectors.ts';

/** Requests of one call that are on their way at the same time. */
const REQUESTS_AT_ONCE = 4;

export interface TextResult {
  /** The model's numbers for this text; one vector per token for a model that does not pool. */
  readonly vectors: Vector | readonly Vector[];
  /** Tokens of the text as the model got it. */
  readonly tokens: number;
}

/**
 * Asks a model about texts, in order, in as many requests as its batch size makes of them. When one request fails the
 * call is cancelled, so that its others cost nothing more.
 */
export async function readTexts(task: TaskCall, texts: readonly string[]): Promise<TextResult[]> {
  const perRequest = await task.preprocessor.textsPerRequest(task.model);
  const results = new Array<TextResult[]>(Math.ceil(texts.length / perRequest));
  let next = 0;
  const takeTurns = async (): Promise<void> => {
    for (let index = next++; index < results.length; index = next++) {
      results[index] = await readGroup(task, texts.slice(index * perRequest, (index + 1) * perRequest));
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(REQUESTS_AT_ONCE, results.length) }, takeTurns));
  } catch (error) {
    next = results.length;
    const failure = InferError.from(error);
    task.call.cancel(failure);
    throw failure;
  }
  return results.flat();
}

async function readGroup(task: TaskCall, texts: readonly string[]): Promise<TextResult[]> {
  const startMs = performance.now();
  const prepared = await task.preprocessor.texts(task.model, texts, task.call);
  task.timings.preprocessed(startMs);
  const { values, shape } = await inferOutput(task, prepared.tensors);
  const perText = values.length / texts.length;
  // Without a batch dimension among the inputs there is none in the output.
  const batched = prepared.tensors[0]?.shape.length === 2;
  const rowShape = batched ? shape.slice(1) : shape;
  if (!Number.isInteger(perText) || (batched && shape[0] !== texts.length)) {
    throw new InferError('INTERNAL', `the model gave [${shape.join(', ')}] for ${texts.length} texts`);
  }
  return texts.map((_, index) => {
    const row = values.subarray(index * perText, (index + 1) * perText);
    return { vectors: vectorsOf(row, rowShape, prepared, index, task), tokens: prepared.tokens[index] ?? 0 };
  });
}

function vectorsOf(
  row: Vector,
  shape: readonly number[],
  { starts, tokens }: PreparedTexts,
  index: number,
  { profile }: TaskCall,
): TextResult['vectors'] {
  if (shape.length < 2) return row;
  const range = { start: starts[index] ?? 0, count: tokens[index] ?? 0 };
  const perToken = tokenVectors(row, shape.at(-1) ?? 1, range);
  return profile.pooling ? poolTokens(perToken, profile.pooling) : perToken;
}
