import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Datatype } from '../../../../../shared/tensor/datatype.ts';
import { byteSizeOf } from '../../../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../../../shared/tensor/tensor.ts';
import { groupKey } from '../../../../../worker/engine/batch/group-key.ts';
import { createAssembler } from '../../../../../worker/engine/batch/padded-assemble.ts';
import { splitBatch } from '../../../../../worker/engine/batch/padded-split.ts';
import { bucketOf, paddingShareOf, type PaddingPlan } from '../../../../../worker/engine/batch/padding-plan.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

/** A tensor with the places of the request's length; each number in `dims` other than -1 is fixed. */
interface Kind {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly number[];
  readonly axes: readonly number[];
  readonly fill: readonly number[];
}

const KINDS: readonly Kind[] = [
  { name: 'ids', datatype: 'INT64', dims: [-1], axes: [1], fill: [7, 0, 0, 0, 0, 0, 0, 1] },
  { name: 'mask', datatype: 'BOOL', dims: [-1], axes: [1], fill: [0] },
  { name: 'frames', datatype: 'FP32', dims: [-1, 3], axes: [1], fill: [0, 0, 0x80, 0x3f] },
  { name: 'channels', datatype: 'FP16', dims: [2, -1], axes: [2], fill: [1, 2] },
  { name: 'square', datatype: 'UINT8', dims: [-1, 2, -1], axes: [1, 3], fill: [9] },
  { name: 'plain', datatype: 'INT16', dims: [2], axes: [], fill: [] },
];

function planOf(kinds: readonly Kind[], padding: Partial<PaddingPlan>) {
  const tensors = kinds.map(({ name, datatype, dims }) => tensorPlan(name, datatype, [-1, ...dims]));
  const plan: PaddingPlan = {
    active: true,
    inputs: kinds.map(({ axes, fill }) =>
      axes.length === 0 ? undefined : { axes, role: 'data', fill: new Uint8Array(fill) },
    ),
    outputs: new Map(kinds.filter(({ axes }) => axes.length > 0).map(({ name, axes }) => [name, axes])),
    buckets: undefined,
    roundUp: false,
    selfTest: true,
    ...padding,
  };
  return modelPlan({ inputs: tensors, outputs: tensors, maxRows: 64, padding: plan });
}

function tensorOf({ name, datatype, dims }: Kind, rows: number, length: number, seed: number): Tensor {
  const shape = [rows, ...dims.map((dim) => (dim === -1 ? length : dim))];
  const byteLength = elementCount(shape) * byteSizeOf(datatype);
  const data = Uint8Array.from({ length: byteLength }, (_, index) => (index * 31 + seed * 17 + 1) % 251);
  return { name, datatype, shape, data };
}

const kindsArbitrary = fc
  .subarray([...KINDS], { minLength: 1 })
  .filter((kinds) => kinds.some(({ axes }) => axes.length > 0));
const membersArbitrary = fc.array(
  fc.record({ rows: fc.integer({ min: 1, max: 2 }), length: fc.integer({ min: 1, max: 20 }) }),
  {
    minLength: 1,
    maxLength: 4,
  },
);
const bucketsArbitrary = fc.constantFrom(undefined, [6, 12], [16]);

/** What the padded tensor is, element by element: that of a member where it has one there, else padding. */
function paddedByHand(kind: Kind, members: readonly Tensor[], length: number): { shape: number[]; data: Buffer } {
  const size = byteSizeOf(kind.datatype);
  const dims = kind.dims.map((dim) => (dim === -1 ? length : dim));
  const rows = members.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  const shape = [rows, ...dims];
  const parts: Uint8Array[] = [];
  const rowOf = members.flatMap((tensor) =>
    Array.from({ length: tensor.shape[0] ?? 0 }, (_, row) => ({ tensor, row })),
  );
  for (let at = 0; at < elementCount(shape); at += 1) {
    const place = placeOf(at, shape);
    const { tensor, row } = rowOf[place[0]!]!;
    const inside = tensor.shape.every((dim, axis) => axis === 0 || place[axis]! < dim);
    const from = indexOf([row, ...place.slice(1)], tensor.shape);
    parts.push(inside ? tensor.data.subarray(from * size, (from + 1) * size) : Uint8Array.from(kind.fill));
  }
  return { shape, data: Buffer.concat(parts) };
}

function placeOf(index: number, shape: readonly number[]): number[] {
  const place: number[] = [];
  let rest = index;
  for (const dim of shape.toReversed()) {
    place.unshift(rest % dim);
    rest = Math.floor(rest / dim);
  }
  return place;
}

function indexOf(place: readonly number[], shape: readonly number[]): number {
  return place.reduce((index, at, axis) => index * shape[axis]! + at, 0);
}

describe('padding', () => {
  it('lays each element where it belongs, pads the rest, and gives every request its own elements back', () => {
    fc.assert(
      fc.property(kindsArbitrary, membersArbitrary, fc.boolean(), bucketsArbitrary, (kinds, sent, roundUp, buckets) => {
        const plan = planOf(kinds, { roundUp, buckets });
        const members = sent.map(({ rows, length }, seed) => ({
          rows,
          request: { outputs: [] },
          inputs: kinds.map((kind) => tensorOf(kind, rows, length, seed)),
        }));
        const rows = members.reduce((sum, member) => sum + member.rows, 0);
        const longest = Math.max(...sent.map(({ length }) => length));
        const length = roundUp ? bucketOf(plan.padding!, longest) || longest : longest;
        const assembled = createAssembler(plan).assemble(members, rows);
        for (const [index, kind] of kinds.entries()) {
          const own = members.map(({ inputs }) => inputs[index]!);
          const expected = paddedByHand(kind, own, length);
          expect(assembled[index]!.shape).toEqual(expected.shape);
          expect(expected.data.equals(assembled[index]!.data)).toBe(true);
        }
        const outputs = assembled.map((tensor) => ({ ...tensor, data: tensor.data.slice() }));
        const split = splitBatch(plan, outputs, members);
        for (const [index, member] of members.entries()) {
          for (const [at, own] of member.inputs.entries()) {
            expect(split[index]![at]!.shape).toEqual(own.shape);
            expect(Buffer.from(split[index]![at]!.data).equals(own.data)).toBe(true);
          }
        }
        const useful = sent.reduce((sum, each) => sum + each.rows * each.length, 0);
        expect(paddingShareOf(plan, plan.padding!, members)).toEqual({
          elements: rows * length,
          paddedElements: rows * length - useful,
        });
      }),
      { numRuns: 200 },
    );
  });

  it('lets requests share a run when their lengths are in one bucket, and never beyond the last one', () => {
    const [ids, , frames] = KINDS as [Kind, Kind, Kind];
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 1, max: 100 }),
        bucketsArbitrary,
        (a, b, buckets) => {
          const plan = planOf([ids, frames], { buckets });
          const keyOf = (length: number) =>
            groupKey(plan, [tensorOf(ids, 1, length, 0), tensorOf(frames, 2, length, 0)]);
          const [bucketA, bucketB] = [bucketOf(plan.padding!, a), bucketOf(plan.padding!, b)];
          expect(keyOf(a) === keyOf(b)).toBe(a === b || (bucketA > 0 && bucketA === bucketB));
        },
      ),
    );
  });

  it('never pads to twice the length without buckets, but for the shortest', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), (length) => {
        const bucket = bucketOf(planOf([KINDS[0]!], {}).padding!, length);
        expect(bucket).toBeGreaterThanOrEqual(length);
        expect(bucket === 8 || bucket < 2 * length).toBe(true);
      }),
    );
  });
});
