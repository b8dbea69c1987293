import { InferError } from '../../../shared/errors.ts';
import { NotServed } from '../../../shared/infer/not-served.ts';
import {
  distinctMembers,
  type EnsembleGraph,
  memberKey,
  type MemberName,
} from '../../../shared/model/ensemble-graph.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { MemberSource, ServedModel } from '../served-model.ts';

/** The members of an ensemble, and which of them each step has. */
export interface MemberList {
  readonly names: readonly MemberName[];
  /** By step: the position in `names`. */
  readonly ofStep: readonly number[];
}

export function listMembers(graph: EnsembleGraph): MemberList {
  const names = distinctMembers(graph.steps);
  const keys = names.map(memberKey);
  return { names, ofStep: graph.steps.map((step) => keys.indexOf(memberKey(step))) };
}

/**
 * The versions that serve as members now, in the order of `names`.
 * @throws NotServed with the code of the first that does not serve.
 */
export function findMembers(ensemble: string, list: MemberList, source: MemberSource): ServedModel[] {
  return list.names.map(({ model, version }, index) => {
    try {
      return source.find(model, version);
    } catch (cause) {
      const { code, message } = InferError.from(cause);
      const step = `step ${list.ofStep.indexOf(index) + 1}`;
      throw new NotServed(code, `ensemble '${ensemble}', ${step} (model '${model}'): ${message}`, { cause });
    }
  });
}

/** The models of the steps, in their order. */
export function modelsOfSteps(list: MemberList, members: readonly ServedModel[]): ReadyModel[] {
  return list.ofStep.flatMap((index) => members[index]?.ready ?? []);
}
