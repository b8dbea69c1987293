import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import type { Datatype } from '../../../shared/tensor/datatype.ts';
import { elementCount } from '../../../shared/tensor/tensor.ts';
import type { Json, JsonMap } from './operation.ts';

/** More than a reader wants to see; larger inputs are for programs, and travel in binary. */
const MAX_ELEMENTS = 256;

/** What stands for an open dimension behind the first, as in the engine's own tests of models. */
const OPEN_LENGTH = 4;

/**
 * Bodies that can be sent to a model as they are: every required input, filled with a value that is valid nearly
 * everywhere. Undefined for a model whose inputs are too large, or have no JSON form.
 */
export function exampleBodies(model: ReadyModel): { readonly infer: JsonMap; readonly generate: JsonMap } | undefined {
  const tensors: { readonly spec: TensorSpec; readonly shape: readonly number[]; readonly data: readonly Json[] }[] =
    [];
  let elements = 0;
  for (const spec of model.inputs) {
    if (spec.optional) continue;
    const shape = exampleShape(spec);
    const value = exampleValue(spec.datatype);
    elements += elementCount(shape);
    if (value === undefined || elements > MAX_ELEMENTS) return undefined;
    tensors.push({ spec, shape, data: new Array<Json>(elementCount(shape)).fill(value) });
  }
  if (tensors.length === 0) return undefined;
  return {
    infer: { inputs: tensors.map(({ spec: { name, datatype }, shape, data }) => ({ name, datatype, shape, data })) },
    generate: Object.fromEntries(
      tensors.map(({ spec: { name }, data }): [string, Json] => [name, data.length === 1 ? (data[0] ?? null) : data]),
    ),
  };
}

/** One row. */
function exampleShape({ shape }: TensorSpec): readonly number[] {
  return shape.map((dim, i) => (dim !== -1 ? dim : i === 0 ? 1 : OPEN_LENGTH));
}

/** 1 is a token of every vocabulary, and a mask that hides nothing. */
function exampleValue(datatype: Datatype): Json | undefined {
  switch (datatype) {
    case 'BOOL':
      return true;
    case 'BYTES':
      return 'text';
    case 'FP32':
    case 'FP64':
      return 0.5;
    case 'FP16':
    case 'BF16':
      return undefined;
    default:
      return 1;
  }
}

/** A picture of 8 x 8 pixels, as PNG in base64. */
export const EXAMPLE_PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAbUlEQVR42hXNQRUAUQhC0YljDWu8GtawBjWoQZ3xu+Ry8CuqKaihlhJlKtRXdNPQQy8t2nTogxffDSwIDIGD6RfOMMuIMRPmYPtVd9hlxZoNe6B+Axq0SMgo6MD9Zj14sbBx8EH6PcuQJSImIT8cylZBQ7F/DwAAAABJRU5ErkJggg==';

export const EXAMPLE_TEXT = 'a cup of coffee';

export const EXAMPLE_FILE = '#!/bin/sh\nset -e\nfor file in *.txt; do\n  wc -l "$file"\ndone\n';
