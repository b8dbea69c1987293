import { InferError } from '../../../shared/errors.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import { encodeElement } from '../../../shared/tensor/encode-element.ts';
import { Assembler } from '../batch/assemble.ts';
import { fillWith } from '../batch/copy-common.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import { createAssembler } from '../batch/padded-assemble.ts';
import { splitBatch } from '../batch/padded-split.ts';
import type { PaddingPlan } from '../batch/padding-plan.ts';
import { splitOutputs } from '../batch/split.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { runUntil } from './benign-run.ts';
import { PROBE_ID_BOUNDS, probeInputs } from './probe-rows.ts';
import { distance, norm, numbersOf } from './rows-differ.ts';

/** For all runs of the test together. */
const MAX_MS = 10_000;

/** One row above this is not tried. */
const MAX_ROW_BYTES = 64 * 1024 * 1024;

/** Lengths of two requests, and what stands for other variable dimensions: of texts first, then of recordings. */
const LENGTHS = [
  { lengths: [5, 8], other: 4 },
  { lengths: [40, 64], other: 64 },
] as const;

/** Near nothing, beside which any noise would be large. */
const SMALLEST_NORM = 1e-6;

/**
 * `fine`; or `broken`: a request that is padded gets another answer than alone, so none is; or `unknown`: the model does
 * not take made-up input, so nothing is proven.
 */
export type PaddingTest =
  | { readonly kind: 'fine'; readonly difference: number }
  | { readonly kind: 'broken' | 'unknown'; readonly reason: string };

interface Trial {
  readonly plan: ModelPlan;
  readonly instance: ModelInstance;
  readonly clock: Clock;
  readonly deadlineMs: number;
}

/** A made-up request. */
interface Member {
  readonly inputs: readonly Tensor[];
  readonly rows: number;
  readonly request: { readonly outputs: readonly string[] };
}

/**
 * Whether padding leaves answers as they are: requests of two lengths run alone as they are and then together, padded as
 * real ones would be; shapes must be equal, and numbers up to `tolerance` of the size of the answer. Where runs have the
 * lengths of buckets, the longest bucket is run too.
 */
export async function testPadding(
  plan: ModelPlan,
  padding: PaddingPlan,
  instance: ModelInstance,
  clock: Clock,
  tolerance: number,
): Promise<PaddingTest> {
  const trial = { plan, instance, clock, deadlineMs: clock.now() + MAX_MS };
  let last: PaddingTest = { kind: 'unknown', reason: 'it does not take made-up input' };
  for (const { lengths, other } of LENGTHS) {
    for (const idBound of PROBE_ID_BOUNDS) {
      const request = (length: number, row: number) => madeUp(plan, padding, length, other, idBound, row);
      const members = lengths.map(request);
      last = await tryTogether(trial, plan.maxRows > 1 ? members : members.slice(0, 1), tolerance);
      if (last.kind === 'unknown') continue;
      const longest = padding.roundUp ? padding.buckets?.at(-1) : undefined;
      if (last.kind === 'broken' || longest === undefined || longest < 2) return last;
      const rounded = await tryTogether(trial, [request(longest - 1, 0)], tolerance);
      return rounded.kind === 'fine' ? last : { ...rounded, reason: `with the length ${longest}: ${rounded.reason}` };
    }
  }
  return last;
}

async function tryTogether(trial: Trial, members: readonly Member[], tolerance: number): Promise<PaddingTest> {
  const { plan } = trial;
  if (members.some(({ inputs }) => inputs.some(({ data }) => data.byteLength > MAX_ROW_BYTES))) {
    return { kind: 'unknown', reason: 'its rows are too large to try' };
  }
  const alone: Tensor[][] = [];
  try {
    for (const member of members) {
      const outputs = await runUntil(...runOf(trial, new Assembler(plan).assemble([member], 1)));
      alone.push(...splitOutputs(plan, outputs, [member]));
    }
  } catch (error) {
    return { kind: 'unknown', reason: InferError.from(error).message };
  }
  try {
    const outputs = await runUntil(...runOf(trial, createAssembler(plan).assemble(members, members.length)));
    return compare(alone, splitBatch(plan, outputs, members), tolerance);
  } catch (error) {
    const { code, message } = InferError.from(error);
    if (code === 'CANCELLED') return { kind: 'unknown', reason: message };
    return { kind: 'broken', reason: `requests run alone, and fail when they are padded: ${message}` };
  }
}

function runOf({ plan, instance, clock, deadlineMs }: Trial, inputs: Tensor[]): Parameters<typeof runUntil> {
  return [plan, instance, inputs, clock, deadlineMs];
}

function compare(alone: readonly Tensor[][], padded: readonly Tensor[][], tolerance: number): PaddingTest {
  let worst = 0;
  for (const [index, outputs] of alone.entries()) {
    for (const [at, own] of outputs.entries()) {
      const other = padded[index]?.[at];
      const shape = `[${own.shape.join(',')}]`;
      if (!other || other.shape.join() !== own.shape.join()) {
        const got = other?.shape.join(',') ?? '';
        return {
          kind: 'broken',
          reason: `its output '${own.name}' has the shape ${shape} alone and [${got}] when padded`,
        };
      }
      const difference = differenceOf(own, other);
      if (difference > tolerance) return { kind: 'broken', reason: differenceText(own.name, difference, tolerance) };
      worst = Math.max(worst, difference);
    }
  }
  return { kind: 'fine', difference: worst };
}

function differenceText(output: string, difference: number, tolerance: number): string {
  const measured = `by ${difference.toPrecision(2)} of its size, allowed are ${tolerance}`;
  return `its output '${output}' differs ${measured}; is the mask among padding.inputs, and are the values right?`;
}

/** Relative to the size of the answer alone. What is no number must be the same. */
function differenceOf(own: Tensor, other: Tensor): number {
  const a = numbersOf(own);
  const b = numbersOf(other);
  if (!a || !b) return Buffer.from(own.data).equals(other.data) ? 0 : 1;
  return distance(a, b) / Math.max(SMALLEST_NORM, norm(a));
}

/** A request of one row; in its padded dimensions `length` long, `other` in other variable ones. Masks are ones. */
function madeUp(
  plan: ModelPlan,
  padding: PaddingPlan,
  length: number,
  other: number,
  idBound: number,
  row: number,
): Member {
  const inputs = plan.inputs.map((planned, index) => {
    const padded = padding.inputs[index];
    const shape = planned.spec.shape.map((dim, axis) => (padded?.axes.includes(axis) ? length : dim));
    const optional = planned.spec.optional && !padded;
    return { ...planned, spec: { ...planned.spec, modelShape: shape, optional } };
  });
  const tensors = probeInputs({ ...plan, inputs }, other, idBound, [row]);
  return {
    inputs: tensors.map((tensor) => (isMask(plan, padding, tensor) ? ones(tensor) : tensor)),
    rows: 1,
    request: { outputs: [] },
  };
}

function isMask({ inputs }: ModelPlan, padding: PaddingPlan, { name }: Tensor): boolean {
  const padded = padding.inputs[inputs.findIndex(({ spec }) => spec.name === name)];
  return padded !== undefined && padded.role !== 'data';
}

function ones(tensor: Tensor): Tensor {
  const one = encodeElement(tensor.datatype, '1') ?? new Uint8Array(1);
  const data = new Uint8Array(elementCount(tensor.shape) * one.byteLength);
  fillWith(data, one);
  return { ...tensor, data };
}
