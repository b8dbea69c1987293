import { byteSizeOf, type Datatype, isDatatype } from '../shared/tensor/datatype.ts';
import { MillraceError } from './millrace-error.ts';
import type { ElementsOf, OutputTensor } from './types.ts';

/** An answer of a model. */
export interface DecodedAnswer {
  readonly model: string;
  readonly version: string;
  readonly id: string;
  readonly outputs: Readonly<Record<string, OutputTensor>>;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/**
 * Reads the answer of `infer`: JSON, and behind it the outputs that came as bytes.
 * @param headerLength bytes of the JSON, from the Inference-Header-Content-Length header; undefined for JSON alone
 * @throws MillraceError for a body that is no answer
 */
export function decodeAnswer(body: Uint8Array, headerLength: number | undefined): DecodedAnswer {
  const jsonLength = headerLength ?? body.byteLength;
  const json = parseJson(body.subarray(0, jsonLength));
  const outputs: Record<string, OutputTensor> = Object.create(null) as Record<string, OutputTensor>; // any name may come
  let offset = jsonLength;
  for (const output of arrayOf(json['outputs'])) {
    const { name, datatype } = output;
    if (typeof name !== 'string' || !isDatatype(datatype)) throw noAnswer();
    const shape = numbersOf(output['shape']);
    const parameters = recordOf(output['parameters']);
    const size = parameters['binary_data_size'];
    if (typeof size !== 'number' || offset + size > body.byteLength) throw noAnswer();
    outputs[name] = { datatype, shape, data: elementsOf(body.subarray(offset, offset + size), datatype) };
    offset += size;
  }
  return {
    model: textOf(json['model_name']),
    version: textOf(json['model_version']),
    id: textOf(json['id']),
    outputs,
    parameters: recordOf(json['parameters']),
  };
}

/** Where the JSON of an answer ends; undefined when there is nothing behind it. */
export function headerLengthOf(headers: Headers): number | undefined {
  const text = headers.get('inference-header-content-length');
  return text === null ? undefined : Number(text);
}

function elementsOf<D extends Datatype>(bytes: Uint8Array, datatype: D): ElementsOf[D] {
  const data: ElementsOf[Datatype] = datatype === 'BYTES' ? splitTexts(bytes) : numbersIn(bytes, datatype);
  return data as ElementsOf[D]; // the one that belongs to the datatype
}

function numbersIn(bytes: Uint8Array, datatype: Datatype): Exclude<ElementsOf[Datatype], Uint8Array[]> {
  const size = byteSizeOf(datatype);
  // Memory of its own: it begins aligned, and the rest of the answer can be freed.
  const { buffer } = new Uint8Array(bytes);
  const length = Math.floor(bytes.byteLength / size);
  switch (datatype) {
    case 'FP32':
      return new Float32Array(buffer, 0, length);
    case 'FP64':
      return new Float64Array(buffer, 0, length);
    case 'INT8':
      return new Int8Array(buffer, 0, length);
    case 'INT16':
      return new Int16Array(buffer, 0, length);
    case 'INT32':
      return new Int32Array(buffer, 0, length);
    case 'INT64':
      return new BigInt64Array(buffer, 0, length);
    case 'UINT16':
    case 'FP16':
    case 'BF16':
      return new Uint16Array(buffer, 0, length);
    case 'UINT32':
      return new Uint32Array(buffer, 0, length);
    case 'UINT64':
      return new BigUint64Array(buffer, 0, length);
    default:
      return new Uint8Array(buffer, 0, length);
  }
}

function splitTexts(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  for (let offset = 0; offset < bytes.byteLength;) {
    const start = offset + 4;
    const end = start <= bytes.byteLength ? start + view.getUint32(offset, true) : Infinity;
    if (end > bytes.byteLength) throw noAnswer();
    elements.push(new Uint8Array(bytes.subarray(start, end)));
    offset = end;
  }
  return elements;
}

export function parseJson(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    return recordOf(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new MillraceError('the server answered something else than JSON; is it an inference server?', 0, { cause });
  }
}

function arrayOf(value: unknown): Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value)) throw noAnswer();
  return value.map(recordOf);
}

function numbersOf(value: unknown): number[] {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'number')) throw noAnswer();
  return value;
}

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function noAnswer(): MillraceError {
  return new MillraceError('the server answered in a form that is not the answer of a model');
}
