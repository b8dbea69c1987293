import { InferError } from '../../../shared/errors.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import { assertByteLength, checkedElementCount } from '../../../shared/tensor/byte-length.ts';
import { encodeBytes } from '../../../shared/tensor/bytes.ts';
import { byteSizeOf } from '../../../shared/tensor/datatype.ts';
import { joinedOf, type Pieces } from '../../../shared/tensor/pieces.ts';
import { createTensor, type Tensor } from '../../../shared/tensor/tensor.ts';
import { shownNames, shownShape } from '../../../shared/tensor/text.ts';

/**
 * The input of a raw binary request (Inference-Header-Content-Length: 0): the body is the data of the model's only
 * input, with batch size 1; one dimension of -1 follows from the number of bytes. BYTES must be a single element by the
 * model's own shape, as the body holds it without its length and says nothing of how many there are.
 * @throws InferError INVALID_ARGUMENT when the shape cannot be told.
 */
export function decodeRawInput(body: Buffer | Pieces, model: ReadyModel): Tensor {
  const [spec, ...others] = model.inputs;
  if (!spec || others.length > 0) {
    const names = shownNames(model.inputs.map((input) => input.name));
    throw invalid(`model ${model.name}: a raw binary request needs a model with one input, this one has: ${names}`);
  }
  const where = `model ${model.name}, input ${spec.name}`;
  const known = model.maxBatchSize > 0 ? [1, ...spec.shape.slice(1)] : [...spec.shape];
  if (spec.datatype === 'BYTES') return decodeRawText(where, body, spec, known);
  const shape = solveShape(where, known, body.length, byteSizeOf(spec.datatype));
  assertByteLength(where, spec.datatype, shape, checkedElementCount(where, shape), body.length);
  return createTensor(spec.name, spec.datatype, shape, body);
}

function decodeRawText(where: string, body: Buffer | Pieces, spec: TensorSpec, known: readonly number[]): Tensor {
  if (known.includes(-1) || checkedElementCount(where, known) !== 1) {
    throw invalid(`${where}: a raw binary request can hold one BYTES element only, the shape is ${shownShape(known)}`);
  }
  return { name: spec.name, datatype: 'BYTES', shape: known, data: encodeBytes([joinedOf(body)]) };
}

/** The shape with its one -1, if there is one, solved from the size of the body. */
function solveShape(where: string, known: readonly number[], byteLength: number, elementSize: number): number[] {
  const free = known.indexOf(-1);
  if (free === -1) return [...known];
  if (known.lastIndexOf(-1) !== free) {
    throw invalid(`${where}: the shape ${shownShape(known)} of a raw binary request cannot be told from its size`);
  }
  const rest = known.filter((dim) => dim !== -1);
  const rowBytes = checkedElementCount(where, rest) * elementSize;
  if (rowBytes === 0 || byteLength % rowBytes !== 0) {
    throw invalid(
      `${where}: expected a multiple of ${rowBytes} bytes for shape ${shownShape(known)}, got ${byteLength}`,
    );
  }
  return known.map((dim) => (dim === -1 ? byteLength / rowBytes : dim));
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
