/** Not for people: the child process of `millrace gpu check`, which may be killed by what it loads. */
export const PROBE_COMMAND = 'probe';

/** One step on the way to a run on a GPU. */
export interface StepResult {
  readonly step: string;
  readonly ok: boolean;
  /** What was found, or what is wrong. */
  readonly text: string;
  /** The command or the act that repairs it; '' where nothing is to be repaired, or nobody knows how. */
  readonly repair: string;
}

/** What the child writes: that a step begins, then how it went, one JSON line each. */
export type ProbeLine = { readonly begins: string } | StepResult;
