import type { Floats } from './floats.ts';
import { onceEach, topScores, type LabelScore, type ScoreFunction } from './scores.ts';
import { inferOutput, type TaskCall } from './task-call.ts';
import type { Vector } from './vectors.ts';

export interface ClassifyOptions {
  readonly topK: number;
  /** undefined: as the model's files say. */
  readonly scores: ScoreFunction | undefined;
}

/** What is on a photo. */
export async function classifyImage(
  task: TaskCall,
  photo: Uint8Array,
  options: ClassifyOptions,
): Promise<LabelScore[]> {
  return topOf((await inferImage(task, photo)).values, task, options);
}

/** The vector of a photo. */
export async function embedImage(task: TaskCall, photo: Uint8Array): Promise<Vector> {
  return (await inferImage(task, photo)).values;
}

/** What kind of file the bytes are. Files too small for the model get the answer that Magika gives, with score 1. */
export async function classifyFile(task: TaskCall, bytes: Uint8Array, options: ClassifyOptions): Promise<LabelScore[]> {
  const startMs = performance.now();
  const prepared = await task.preprocessor.file(task.model, bytes);
  task.timings.preprocessed(startMs);
  if (!prepared.tensors) return options.topK > 0 ? [{ label: prepared.answer, score: 1 }] : [];
  const { values } = await inferOutput(task, prepared.tensors);
  // Magika gives several of the model's labels one name.
  return onceEach(topOf(values, task, { ...options, topK: Infinity })).slice(0, options.topK);
}

/** The scores of one row of a classifier's output. */
export function topOf(row: Vector, { profile }: TaskCall, options: ClassifyOptions): LabelScore[] {
  return topScores(row, profile.labels, options.scores ?? profile.scores, options.topK);
}

async function inferImage(task: TaskCall, photo: Uint8Array): Promise<Floats> {
  const startMs = performance.now();
  const tensor = await task.preprocessor.image(task.model, photo, task.call);
  task.timings.preprocessed(startMs);
  return inferOutput(task, [tensor]);
}
