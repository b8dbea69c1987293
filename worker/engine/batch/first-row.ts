import type { Tensor } from '../../../shared/tensor/tensor.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import type { BatchMember } from './assemble.ts';
import { bytesEnd } from './bytes-rows.ts';
import type { SplitMember } from './split.ts';

/** What takes part in a run. */
export type RunMember = BatchMember & SplitMember;

/**
 * The first row of a request as a member of its own, to fill up a run: what the model takes once it takes twice, which
 * cannot be said of zeros. A view; its answer is for nobody.
 */
export function firstRowOf({ inputs, request }: RunMember): RunMember {
  return { rows: 1, request: { outputs: request.outputs }, inputs: inputs.map(firstRow) };
}

function firstRow(tensor: Tensor): Tensor {
  const { name, datatype, data, pixels } = tensor;
  const [rows = 1, ...dims] = tensor.shape;
  const end = datatype === 'BYTES' ? bytesEnd(data, 0, elementCount(dims)) : data.byteLength / Math.max(1, rows);
  const row = { name, datatype, shape: [1, ...dims], data: data.subarray(0, end) };
  return pixels ? { ...row, pixels } : row;
}
