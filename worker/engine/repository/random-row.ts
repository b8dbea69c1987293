import { randomFillSync } from 'node:crypto';
import { byteSizeOf, type Datatype } from '../../../shared/tensor/datatype.ts';

/** How many values there are: whole numbers stay below it, as they may be places in a table. */
const VALUES = 128;

/**
 * Random data of one row that models can work with: fractions from 0 to 1, whole numbers from 0 to 127, 0 or 1 for BOOL.
 * Random bits would often be NaN, infinite or subnormal floats, with which a run takes another time than with real ones.
 * Not for BYTES.
 */
export function randomRow(datatype: Datatype, elements: number): Uint8Array {
  const byteSize = byteSizeOf(datatype);
  const data = new Uint8Array(elements * byteSize);
  const choices = Array.from({ length: VALUES }, (_, value) => bytesOf(datatype, value));
  const random = randomFillSync(new Uint8Array(elements));
  for (let i = 0; i < elements; i += 1) data.set(choices[(random[i] ?? 0) % VALUES] ?? [], i * byteSize);
  return data;
}

/** One element, little-endian. */
function bytesOf(datatype: Datatype, value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  const fraction = value / VALUES;
  switch (datatype) {
    case 'FP64':
      view.setFloat64(0, fraction, true);
      break;
    case 'FP32':
      view.setFloat32(0, fraction, true);
      break;
    case 'FP16':
    case 'BF16':
      view.setUint16(0, halfBits(datatype, fraction), true);
      break;
    case 'BOOL':
      bytes[0] = value % 2;
      break;
    default:
      bytes[0] = value;
  }
  return bytes.subarray(0, byteSizeOf(datatype));
}

/** A multiple of 1/128 below 1, which both formats hold exactly. */
function halfBits(datatype: 'FP16' | 'BF16', fraction: number): number {
  if (fraction === 0) return 0;
  const bits = new Uint32Array(new Float32Array([fraction]).buffer)[0] ?? 0;
  if (datatype === 'BF16') return bits >>> 16;
  return (((bits >>> 23) - 127 + 15) << 10) | ((bits >>> 13) & 0x3ff);
}
