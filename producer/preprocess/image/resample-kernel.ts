import type { Taps } from './pillow-filters.ts';
import type { Raster } from './pillow-resample.ts';
import { instantiateResample, type ResampleExports } from './resample-wasm.ts';

/** Input that is copied into the kernel's memory at a time, so that it stays small whatever the picture. */
const STRIP_BYTES = 1024 * 1024;
/** A picture of one enormous row needs more; its memory is given back afterwards. */
const KEPT_BYTES = 16 * 1024 * 1024;
/** Rows are read and written four bytes at a time. */
const SLACK_BYTES = 16;
const PAGE_BYTES = 65_536;

/** The two passes of a resize, one weighted sum per output. Holds a few MB of working memory; one per thread. */
export class ResampleKernel {
  #wasm: ResampleExports | undefined;

  /** Some rows of `source`, whose first column is column `origin` of what the taps count from. */
  across(source: Raster, rows: { readonly from: number; readonly length: number }, taps: Taps, origin: number): Raster {
    const { data, channels } = source;
    const count = taps.first.length;
    const [inLine, outLine] = [source.width * channels, count * channels];
    const out = new Uint8Array(outLine * rows.length);
    const perStrip = Math.max(1, Math.floor(STRIP_BYTES / inLine));
    const wasm = this.#reserve(tapBytes(taps) + perStrip * (inLine + outLine));
    const memory = new Uint8Array(wasm.memory.buffer);
    const { first, counts, weights, end: input } = writeTaps(wasm, taps);
    const output = input + perStrip * inLine + SLACK_BYTES;
    for (let done = 0; done < rows.length; done += perStrip) {
      const strip = Math.min(perStrip, rows.length - done);
      const start = (rows.from + done) * inLine;
      memory.set(data.subarray(start, start + strip * inLine), input);
      for (let y = 0; y < strip; y++) {
        const from = input + y * inLine - origin * channels;
        wasm.across(from, output + y * outLine, count, channels, first, counts, weights, taps.stride * 4);
      }
      out.set(memory.subarray(output, output + strip * outLine), done * outLine);
    }
    this.#release();
    return { data: out, width: count, height: rows.length, channels };
  }

  /** All columns of `source`, which begins with the first row that the taps use. */
  down(source: Raster, taps: Taps): Raster {
    const { data, width, channels } = source;
    const line = width * channels;
    const height = taps.first.length;
    const out = new Uint8Array(line * height);
    const strips = stripsOf(taps, Math.floor(STRIP_BYTES / line));
    const inBytes = Math.max(...strips.map(({ rows }) => rows)) * line;
    const wasm = this.#reserve(tapBytes(taps) + inBytes + line);
    const memory = new Uint8Array(wasm.memory.buffer);
    const { weights, end: input } = writeTaps(wasm, taps);
    const output = input + inBytes + SLACK_BYTES;
    for (const { from, to, row, rows } of strips) {
      const start = (row - taps.from) * line;
      memory.set(data.subarray(start, start + rows * line), input);
      for (let y = from; y < to; y++) {
        const at = input + ((taps.first[y] ?? 0) - row) * line;
        const weight = weights + y * taps.stride * 4;
        wasm.down(at, output, output + line, line, weight, weight + (taps.count[y] ?? 0) * 4);
        out.set(memory.subarray(output, output + line), y * line);
      }
    }
    this.#release();
    return { data: out, width, height, channels };
  }

  #reserve(byteLength: number): ResampleExports {
    this.#wasm ??= instantiateResample();
    const { memory } = this.#wasm;
    const missing = byteLength + 4 * SLACK_BYTES - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / PAGE_BYTES));
    return this.#wasm;
  }

  #release(): void {
    if ((this.#wasm?.memory.buffer.byteLength ?? 0) > KEPT_BYTES) this.#wasm = undefined;
  }
}

interface Strip {
  /** Outputs `from` up to `to`. */
  readonly from: number;
  to: number;
  /** The inputs that they need: `rows` from `row` on. */
  readonly row: number;
  rows: number;
}

/** Runs of outputs whose inputs are at most `maxRows` together, or a single output. */
function stripsOf({ first, count }: Taps, maxRows: number): Strip[] {
  const strips: Strip[] = [];
  for (let y = 0; y < first.length; y++) {
    const end = (first[y] ?? 0) + (count[y] ?? 0);
    const last = strips.at(-1);
    if (last && end - last.row <= maxRows) {
      last.to = y + 1;
      last.rows = end - last.row;
    } else {
      strips.push({ from: y, to: y + 1, row: first[y] ?? 0, rows: count[y] ?? 0 });
    }
  }
  return strips;
}

function tapBytes({ first, weights }: Taps): number {
  return (2 * first.length + weights.length) * 4;
}

/** Writes the taps to the start of the memory and says where each part lies. */
function writeTaps({ memory }: ResampleExports, { first, count, weights }: Taps) {
  const words = new Int32Array(memory.buffer);
  words.set(first, 0);
  words.set(count, first.length);
  words.set(weights, 2 * first.length);
  return {
    first: 0,
    counts: first.length * 4,
    weights: 2 * first.length * 4,
    end: (2 * first.length + weights.length) * 4,
  };
}
