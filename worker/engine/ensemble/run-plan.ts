import type { EnsembleGraph, EnsembleStep } from '../../../shared/model/ensemble-graph.ts';

/** Which steps have to run for a choice of outputs, and in which order they wait for each other. Steps by their index. */
export interface RunPlan {
  /** How many steps run. */
  readonly count: number;
  /** Those that wait for none. */
  readonly first: readonly number[];
  /** For how many other steps each one waits. */
  readonly waits: readonly number[];
  /** Those that wait for each one. */
  readonly next: readonly (readonly number[])[];
  /** Which outputs of its model each one is asked for. */
  readonly outputNames: readonly (readonly string[])[];
}

/** The plan for those outputs of a sound ensemble: what does not lead to any of them stays idle. */
export function planRun(graph: EnsembleGraph, outputs: readonly string[]): RunPlan {
  const needed = new Set<EnsembleStep>();
  const wanted = new Set<string>();
  const want = (tensor: string): void => {
    if (wanted.has(tensor)) return;
    wanted.add(tensor);
    const step = graph.tensors.get(tensor)?.writers[0]?.step;
    if (!step || needed.has(step)) return;
    needed.add(step);
    for (const input of step.inputs) want(input.tensor);
  };
  for (const output of outputs) want(output);

  const next: number[][] = graph.steps.map(() => []);
  const waits = graph.steps.map((step) => {
    if (!needed.has(step)) return 0;
    const writers = new Set(step.inputs.flatMap(({ tensor }) => graph.tensors.get(tensor)?.writers[0]?.step ?? []));
    for (const writer of writers) next[writer.index]?.push(step.index);
    return writers.size;
  });
  return {
    count: needed.size,
    first: [...needed].filter(({ index }) => waits[index] === 0).map(({ index }) => index),
    waits,
    next,
    outputNames: graph.steps.map(({ outputs: given }) =>
      given.filter(({ tensor }) => wanted.has(tensor)).map(({ name }) => name),
    ),
  };
}
