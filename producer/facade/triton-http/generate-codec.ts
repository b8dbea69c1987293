import { InferError } from '../../../shared/errors.ts';
import type { InferRequest } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import { decodeJsonData } from '../../../shared/tensor/json-decode.ts';
import { encodeJsonData } from '../../../shared/tensor/json-encode.ts';
import { elementCount, type Tensor } from '../../../shared/tensor/tensor.ts';
import { shownNames, shownShape, shownText, shownValue } from '../../../shared/tensor/text.ts';
import { decodeId, withRequestId } from '../triton/request-id.ts';
import { type JsonDocument, parseJsonDocument } from './json-document.ts';
import { asObject } from './json-fields.ts';
import { decodeRequestParameters } from './parameters.ts';

export interface DecodedGenerate {
  readonly request: InferRequest;
  /** Whether NaN and infinities are written as bare words; otherwise they are strings. */
  readonly bareNan: boolean;
  readonly priority: number;
}

/**
 * Decodes the body of `generate`: one flat object, whose keys are inputs of the model, `id`, or parameters. The keys of
 * a nested `parameters` object count as if they stood beside it.
 * @param version as the client asked for it, '' for none
 * @throws InferError INVALID_ARGUMENT
 */
export function decodeGenerateRequest(body: Buffer, model: ReadyModel, version: string): DecodedGenerate {
  if (body.length === 0) throw invalid('the request has no body');
  const document = parseJsonDocument(body, body.length);
  const fields = collectFields(document, model);
  const field = fields.get('id');
  const id = field === undefined || field.spec ? '' : decodeId(field.value);
  try {
    return decodeFields(fields, model, version, id, document.bareFloats);
  } catch (error) {
    throw withRequestId(error, id);
  }
}

interface Field {
  readonly spec: TensorSpec | undefined;
  readonly value: unknown;
  /** The same value with integers beyond 2^53 as bigint. */
  readonly exact: () => unknown;
}

type Fields = ReadonlyMap<string, Field>;

/** Names of inputs come first: a model may have one that is called "id" or "parameters". */
function collectFields(document: JsonDocument, model: ReadyModel): Fields {
  const fields = new Map<string, Field>();
  const specs = new Map(model.inputs.map((spec) => [spec.name, spec]));
  const add = (source: Record<string, unknown>, exactSource: () => Record<string, unknown>, nested: boolean): void => {
    for (const [key, value] of Object.entries(source)) {
      const spec = specs.get(key);
      if (key === 'parameters' && !nested && !spec) {
        add(asObject('parameters', value), () => asObject('parameters', exactSource()[key]), true);
        continue;
      }
      if (fields.has(key)) throw invalid(`${shownText(key)} is given twice, beside and inside parameters`);
      fields.set(key, { spec, value, exact: () => exactSource()[key] });
    }
  };
  add(document.root, () => document.exact(), false);
  return fields;
}

function decodeFields(
  fields: Fields,
  model: ReadyModel,
  version: string,
  id: string,
  bareFloats: boolean,
): DecodedGenerate {
  const inputs: Tensor[] = [];
  const others: [string, Field][] = [];
  for (const [key, field] of fields) {
    if (field.spec) inputs.push(decodeInput(field.spec, field, bareFloats));
    else if (key !== 'id') others.push([key, field]);
  }
  for (const [key, { value }] of others) assertParameter(key, value, model);
  const {
    parameters,
    bareNan = bareFloats,
    priority,
  } = decodeRequestParameters(Object.fromEntries(others.map(([key, { value }]) => [key, value])), () =>
    Object.fromEntries(others.map(([key, { exact }]) => [key, exact()])),
  );
  const request = { id, model: model.name, version, inputs, outputs: [], parameters };
  return { request, bareNan, priority };
}

/** A list under an unknown key is a misspelt input rather than a parameter. */
function assertParameter(key: string, value: unknown, model: ReadyModel): void {
  if (typeof value !== 'object') return;
  const names = shownNames(model.inputs.map(({ name }) => name));
  throw invalid(
    `model ${model.name}: ${shownText(key)} is neither an input (expected ${names}) nor a parameter, which is a string, a number or a boolean; got ${shownValue(value)}`,
  );
}

function decodeInput(spec: TensorSpec, { value, exact }: Field, bareFloats: boolean): Tensor {
  const where = `input ${spec.name}`;
  const isList = Array.isArray(value);
  const values: readonly unknown[] = isList ? value : [value];
  const nested = values.find((element) => typeof element === 'object');
  if (nested !== undefined) {
    throw invalid(
      `${where}: expected a single value or a flat list of them, got ${shownValue(nested)}${isList ? ' inside the list' : ''}`,
    );
  }
  const shape = fitShape(where, spec.shape, values.length);
  const exactValues = () => (isList ? exact() : [exact()]);
  const data = decodeJsonData(where, spec.datatype, values.length, values, exactValues, bareFloats);
  return { name: spec.name, datatype: spec.datatype, shape, data };
}

/**
 * The shape of a flat list: fixed dimensions take their part, the innermost open one takes the rest, and other open ones
 * are 1.
 */
function fitShape(where: string, expected: readonly number[], count: number): number[] {
  let fixed = 1;
  for (const dim of expected) if (dim !== -1) fixed *= dim;
  const open = expected.lastIndexOf(-1);
  if (open === -1 ? count !== fixed : count % fixed !== 0) {
    throw invalid(`${where}: ${count} elements do not fit shape ${shownShape(expected)}`);
  }
  return expected.map((dim, i) => (dim !== -1 ? dim : i === open ? count / fixed : 1));
}

/**
 * The answer as one flat JSON object without line breaks: every output under its name, a single element without its list.
 * @throws InferError INVALID_ARGUMENT for values that have no JSON form.
 */
export function encodeGenerateResponse(response: InferResponse, id: string, bareNan = false): string {
  const texts = new Map<string, string>();
  if (id !== '') texts.set('id', JSON.stringify(id));
  texts.set('model_name', JSON.stringify(response.model));
  texts.set('model_version', JSON.stringify(response.version));
  for (const [key, value] of Object.entries(response.parameters)) {
    texts.set(key, typeof value === 'bigint' ? String(value) : JSON.stringify(value));
  }
  // Last, so that an output keeps its name whatever it is.
  for (const output of response.outputs) {
    const list = encodeJsonData(`output ${output.name}`, output, bareNan);
    texts.set(output.name, elementCount(output.shape) === 1 ? list.slice(1, -1) : list);
  }
  return `{${Array.from(texts, ([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`;
}

function invalid(message: string): InferError {
  return new InferError('INVALID_ARGUMENT', message);
}
