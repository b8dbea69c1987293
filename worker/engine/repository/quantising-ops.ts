import { operatorsOf } from '../backend/onnx/operators.ts';

/** Operators that take the scale of their quantised input from all of it, so from all rows of a batch. */
const QUANTISING = ['DynamicQuantizeLinear', 'DynamicQuantizeMatMul', 'DynamicQuantizeLSTM'];

/** How many operators of a model file quantise dynamically; 0 too for one that cannot be read: the answer is a hint. */
export async function countQuantisingOps(path: string): Promise<number> {
  const counts = await operatorsOf(path);
  return QUANTISING.reduce((sum, name) => sum + (counts?.get(name) ?? 0), 0);
}
