import type { Datatype } from '../../../shared/tensor/datatype.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import type { ModelPlan } from '../batch/model-plan.ts';

/** How many rows there are. */
export const PROBE_ROWS = 4;

/** Largest number of each row of floats: a scale that is taken over all of them is far too coarse for the first. */
const AMPLITUDES = [1 / 16, 1, 0.25, 4];

/** Whole numbers that are no masks, types or places stay below, the first of these that the model takes. */
export const PROBE_ID_BOUNDS = [1000, 100, 2];

/**
 * Made-up inputs of rows that are as unlike each other as those of different callers: quiet and loud numbers, any tokens,
 * a text that ends early. The same for every load. Optional inputs are left out.
 * @param rows which of the `PROBE_ROWS`
 * @param length stands for every variable dimension
 */
export function probeInputs(plan: ModelPlan, length: number, idBound: number, rows: readonly number[]): Tensor[] {
  return plan.inputs
    .filter(({ spec }) => !spec.optional)
    .map(({ spec: { name, datatype, modelShape } }, index) => {
      const dims = modelShape.slice(1).map((dim) => (dim === -1 ? length : dim));
      const elements = elementCount(dims);
      const data = Buffer.concat(
        rows.map((row) => rowOf(name, datatype, elements, row, idBound, randomFrom(1 + row + PROBE_ROWS * index))),
      );
      return { name, datatype, shape: [rows.length, ...dims], data: new Uint8Array(data) };
    });
}

function rowOf(
  name: string,
  datatype: Datatype,
  elements: number,
  row: number,
  idBound: number,
  random: () => number,
): Uint8Array {
  if (datatype === 'BYTES') return textRow(elements, row, random);
  const byteSize = byteSizeOf(datatype);
  const data = new Uint8Array(elements * byteSize);
  const view = new DataView(data.buffer);
  const amplitude = AMPLITUDES[row] ?? 1;
  const whole = wholeNumbers(name, datatype, elements, row, idBound);
  for (let i = 0; i < elements; i += 1) {
    const at = i * byteSize;
    if (datatype === 'FP32') view.setFloat32(at, amplitude * (2 * random() - 1), true);
    else if (datatype === 'FP64') view.setFloat64(at, amplitude * (2 * random() - 1), true);
    else if (datatype === 'FP16') view.setUint16(at, halfBits('FP16', amplitude * (2 * random() - 1)), true);
    else if (datatype === 'BF16') view.setUint16(at, halfBits('BF16', amplitude * (2 * random() - 1)), true);
    else if (byteSize === 1) data[at] = whole(i, random);
    else view.setUint16(at, whole(i, random), true); // below 65536, so the rest stays 0
  }
  return data;
}

/** What an input of whole numbers holds is told by its name, as the exports of text models have it. */
function wholeNumbers(
  name: string,
  datatype: Datatype,
  elements: number,
  row: number,
  idBound: number,
): (i: number, random: () => number) => number {
  const endsEarly = row === PROBE_ROWS - 1;
  if (/mask/i.test(name)) return (i) => (endsEarly && i >= elements / 2 ? 0 : 1);
  if (/type|segment/i.test(name)) return () => 0;
  if (/position/i.test(name)) return (i) => Math.min(i, idBound - 1);
  const bound = datatype === 'BOOL' ? 2 : datatype === 'INT8' ? Math.min(idBound, 128) : idBound;
  const most = byteSizeOf(datatype) === 1 ? Math.min(bound, 256) : bound;
  return (_, random) => Math.floor(random() * most);
}

function textRow(elements: number, row: number, random: () => number): Uint8Array {
  const parts: Buffer[] = [];
  for (let i = 0; i < elements; i += 1) {
    const text = String.fromCharCode(...Array.from({ length: 1 + 3 * row }, () => 97 + Math.floor(random() * 26)));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    parts.push(length, Buffer.from(text));
  }
  return Buffer.concat(parts);
}

/** Cut off, not rounded; what is too small for a normal FP16 is 0. */
function halfBits(datatype: 'FP16' | 'BF16', value: number): number {
  const bits = new Uint32Array(new Float32Array([value]).buffer)[0] ?? 0;
  if (datatype === 'BF16') return bits >>> 16;
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15;
  return exponent <= 0 ? sign : sign | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
