import { InferError } from '../../../shared/errors.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import { bytesEnd } from './bytes-rows.ts';
import type { ModelPlan, TensorPlan } from './model-plan.ts';
import { reshape } from './model-plan.ts';

/** A member of a batch, as far as splitting sees it. */
export interface SplitMember {
  readonly rows: number;
  readonly request: { readonly outputs: readonly string[] };
}

/** The model did not answer row for row: requests cannot be told apart in its outputs. */
export class RowMismatch extends InferError {
  constructor(message: string) {
    super('INTERNAL', message);
  }
}

/** The names that the members of a batch want together, in the order of the config. */
export function wantedOutputs(plan: ModelPlan, members: readonly SplitMember[]): readonly string[] {
  const wanted = new Set<string>();
  for (const { request } of members) {
    if (request.outputs.length === 0) return plan.outputNames;
    for (const name of request.outputs) wanted.add(name);
  }
  if (wanted.size === plan.outputNames.length) return plan.outputNames;
  return plan.outputNames.filter((name) => wanted.has(name));
}

/**
 * Gives each member its own rows of the outputs that it asked for, as views into the outputs of the whole run.
 * `outputs` are in the order of the config. The answer has one list per member, in their order.
 * @throws RowMismatch when rows cannot be told apart.
 */
export function splitOutputs(plan: ModelPlan, outputs: readonly Tensor[], members: readonly SplitMember[]): Tensor[][] {
  const split: Tensor[][] = members.map(() => []);
  let totalRows = 0;
  for (const { rows } of members) totalRows += rows;
  let at = 0;
  for (const output of outputs) {
    while (plan.outputs[at]?.spec.name !== output.name) {
      at += 1;
      if (at >= plan.outputs.length) throw new InferError('INTERNAL', `unexpected output '${output.name}' of a run`);
    }
    const planned = plan.outputs[at];
    if (!planned) continue;
    if (plan.batched && output.shape[0] !== totalRows) {
      throw rowError(plan.model, output, totalRows);
    }
    splitOutput(plan, planned, output, members, split, totalRows);
  }
  return split;
}

function rowError(model: string, { name, shape }: Tensor, expected: number): RowMismatch {
  const got = `output '${name}' has the shape [${shape.join(',')}]`;
  return new RowMismatch(
    `model '${model}' was run with ${expected} rows and its ${got}: its first dimension must be ${expected}`,
  );
}

function splitOutput(
  plan: ModelPlan,
  planned: TensorPlan,
  output: Tensor,
  members: readonly SplitMember[],
  split: Tensor[][],
  totalRows: number,
): void {
  if (members.length === 1) {
    const whole = planned.reshaped ? withShape(output, clientShape(planned, output)) : output;
    split[0]?.push(whole);
    return;
  }
  const rowElements = elementCount(output.shape.slice(1));
  const rowBytes = totalRows === 0 ? 0 : output.data.byteLength / totalRows;
  const shape = clientShape(planned, output);
  let start = 0;
  for (let i = 0; i < members.length; i += 1) {
    const member = members[i];
    if (!member) continue;
    const { rows, request } = member;
    const end = planned.elementBytes === 0 ? bytesEnd(output.data, start, rows * rowElements) : start + rows * rowBytes;
    if (end < start) throw new InferError('INTERNAL', `model '${plan.model}': output '${output.name}' is cut short`);
    if (request.outputs.length === 0 || request.outputs.includes(output.name)) {
      const ownShape = shape.slice();
      ownShape[0] = rows;
      split[i]?.push({
        name: output.name,
        datatype: output.datatype,
        shape: ownShape,
        data: output.data.subarray(start, end),
      });
    }
    start = end;
  }
}

function clientShape({ spec, reshaped }: TensorPlan, output: Tensor): readonly number[] {
  return reshaped ? reshape(output.shape, spec.modelShape, spec.shape) : output.shape;
}

function withShape(tensor: Tensor, shape: readonly number[]): Tensor {
  return { name: tensor.name, datatype: tensor.datatype, shape, data: tensor.data };
}
