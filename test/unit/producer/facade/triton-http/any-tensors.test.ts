import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeInferRequest, encodeInferResponse } from '../../../../../producer/facade/triton-http/codec.ts';
import { HeadCache } from '../../../../../producer/facade/triton-http/head-cache.ts';
import { joinedBody } from '../../../../../producer/http/send-body.ts';
import { Admission } from '../../../../../producer/service/admission.ts';
import { SharedMemory } from '../../../../../producer/service/shared-memory.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import type { ReadyModel } from '../../../../../shared/model/ready-model.ts';
import { decodeBytes, encodeTexts } from '../../../../../shared/tensor/bytes.ts';
import { byteSizeOf, DATATYPES, type Datatype } from '../../../../../shared/tensor/datatype.ts';
import { elementsOf } from '../../../../../shared/tensor/elements.ts';
import { parseBareFloatJson } from '../../../../../shared/tensor/exact-json.ts';
import type { Tensor } from '../../../../../shared/tensor/tensor.ts';
import { FakeDispatcher, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';

/** One tensor, how it is sent and how it is asked for. */
interface Case {
  readonly tensor: Tensor;
  readonly asJson: boolean;
  readonly answer: 'json' | 'binary' | 'unlisted';
}

const JSON_LESS: readonly Datatype[] = ['FP16', 'BF16'];

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 0, maxLength: 4 });
const texts = fc.string({ unit: 'grapheme', maxLength: 6 });

const cases: fc.Arbitrary<Case> = fc
  .record({
    datatype: fc.constantFrom(...DATATYPES),
    shape: shapes,
    asJson: fc.boolean(),
    answer: fc.constantFrom('json', 'binary', 'unlisted'),
  })
  .chain(({ datatype, shape, asJson, answer }) => {
    const count = shape.reduce((product, dim) => product * dim, 1);
    const canBeJson = !JSON_LESS.includes(datatype);
    return dataOf(datatype, count).map((data) => ({
      tensor: { name: 'x', datatype, shape, data },
      asJson: asJson && canBeJson,
      answer: canBeJson ? answer : ('binary' as const),
    }));
  });

function dataOf(datatype: Datatype, count: number): fc.Arbitrary<Uint8Array> {
  const exactly = { minLength: count, maxLength: count };
  if (datatype === 'BYTES') return fc.array(texts, exactly).map(encodeTexts);
  if (datatype === 'BOOL') return fc.array(fc.nat(1), exactly).map((values) => Uint8Array.from(values));
  const byteLength = count * byteSizeOf(datatype);
  return fc.uint8Array({ minLength: byteLength, maxLength: byteLength });
}

test('any tensors, sent in any form, come back as themselves in the form that was asked for', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(cases, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      fc.boolean(),
      async (list, binaryByDefault, bareWords) => {
        const named = list.map((item, i) => ({ ...item, tensor: { ...item.tensor, name: `x${i}` } }));
        const outputs = await answerOf(named, { binaryByDefault, bareWords });
        for (const { tensor } of named) {
          expect(comparable(outputs.get(tensor.name.replace('x', 'y'))!)).toEqual(comparable(tensor));
        }
      },
    ),
    { numRuns: 300 },
  );
});

function hasJsonForm({ datatype }: Tensor): boolean {
  return !JSON_LESS.includes(datatype);
}

interface Options {
  readonly binaryByDefault: boolean;
  readonly bareWords: boolean;
}

/** The whole way: a body as a client writes it, through the codec and an identity model, and the answer read again. */
async function answerOf(list: readonly Case[], options: Options): Promise<Map<string, Tensor>> {
  const model = identityOf(list);
  const { body, jsonLength } = encodeRequest(list, options);
  const memory = new SharedMemory({
    enabled: false,
    admission: new Admission({ maxRequestsInFlight: 1, maxBytesInFlight: 1 }),
  });
  const decoded = decodeInferRequest(body, String(jsonLength), model, '', new HeadCache(), memory);
  const response = await new FakeDispatcher([model]).infer(decoded.request, new Call('1', 0, Infinity));
  const answer = encodeInferResponse(response, decoded, model);
  const answered = joinedBody(answer.body);
  if (!options.bareWords) JSON.parse(answered.toString('utf8', 0, answer.jsonLength));
  return decodeAnswer(answered, answer.jsonLength ?? answered.length);
}

function identityOf(list: readonly Case[]): ReadyModel {
  const specs = (prefix: string) =>
    list.map(({ tensor }, i) => fakeSpec(`${prefix}${i}`, tensor.datatype, tensor.shape));
  return fakeModel('any', { maxBatchSize: 0, inputs: specs('x'), outputs: specs('y') });
}

function encodeRequest(list: readonly Case[], { binaryByDefault, bareWords }: Options) {
  const blobs: Uint8Array[] = [];
  const inputs = list.map(({ tensor, asJson }) => {
    const { name, datatype, shape, data } = tensor;
    const head = `"name":"${name}","datatype":"${datatype}","shape":${JSON.stringify(shape)}`;
    if (asJson) return `{${head},"data":[${jsonElements(tensor, bareWords).join(', ')}]}`;
    blobs.push(data);
    return `{${head},"parameters":{"binary_data_size":${data.byteLength}}}`;
  });
  const outputs = list.flatMap(({ tensor, answer }) =>
    answer === 'unlisted'
      ? []
      : [{ name: tensor.name.replace('x', 'y'), parameters: { binary_data: answer === 'binary' } }],
  );
  // As soon as one output is listed, the others do not come; so either all are, or none and the default holds.
  const listed = outputs.length === list.length ? outputs : [];
  const needsBinary = list.some(({ tensor }) => !hasJsonForm(tensor));
  const parameters = { binary_data_output: binaryByDefault || needsBinary, bare_nan: bareWords };
  const json = `{"inputs":[${inputs.join()}],"outputs":${JSON.stringify(listed)},"parameters":${JSON.stringify(parameters)}}`;
  const head = Buffer.from(json);
  return { body: Buffer.concat([head, ...blobs]), jsonLength: head.length };
}

/** Written by other means than the product's. */
function jsonElements(tensor: Tensor, bareWords: boolean): string[] {
  const elements = elementsOf(tensor);
  switch (elements.kind) {
    case 'bytes':
      return decodeBytes(tensor.data).map((element) => JSON.stringify(Buffer.from(element).toString()));
    case 'booleans':
      return Array.from(elements.values, (value) => String(value === 1));
    case 'floats':
      return Array.from(elements.values, (value) => {
        if (Number.isFinite(value)) return Object.is(value, -0) ? '-0.0' : String(value);
        return bareWords ? String(value) : `"${value}"`;
      });
    default:
      return Array.from(elements.values as Iterable<number | bigint>, String);
  }
}

interface AnswerOutput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: number[];
  readonly parameters?: { readonly binary_data_size: number };
  readonly data?: readonly unknown[];
}

function decodeAnswer(body: Buffer, jsonLength: number): Map<string, Tensor> {
  const json = parseBareFloatJson(body.toString('utf8', 0, jsonLength), true) as { outputs: AnswerOutput[] };
  let offset = jsonLength;
  const tensors = new Map<string, Tensor>();
  for (const { name, datatype, shape, parameters, data } of json.outputs) {
    const size = parameters?.binary_data_size;
    const bytes = size === undefined ? bytesOf(datatype, data ?? []) : body.subarray(offset, offset + size);
    offset += size ?? 0;
    tensors.set(name, { name, datatype, shape, data: bytes });
  }
  expect(offset).toBe(body.length);
  return tensors;
}

/** The bytes of JSON elements, by other means than the product's. */
function bytesOf(datatype: Datatype, values: readonly unknown[]): Uint8Array {
  if (datatype === 'BYTES') return encodeTexts(values as string[]);
  const size = byteSizeOf(datatype);
  const view = new DataView(new ArrayBuffer(values.length * size));
  values.forEach((value, i) => {
    if (datatype === 'FP32') view.setFloat32(i * size, Number(value), true);
    else if (datatype === 'FP64') view.setFloat64(i * size, Number(value), true);
    else {
      let rest = BigInt.asUintN(64, BigInt(value as number | bigint | boolean));
      for (let byte = 0; byte < size; byte++, rest >>= 8n) view.setUint8(i * size + byte, Number(rest & 0xffn));
    }
  });
  return new Uint8Array(view.buffer);
}

/** Everything that must be equal: for floats the values, because NaN has many patterns and JSON one word. */
function comparable({ datatype, shape, data }: Tensor) {
  const isFloat = datatype === 'FP32' || datatype === 'FP64';
  const elements = isFloat ? elementsOf({ name: '', datatype, shape, data }) : undefined;
  return { datatype, shape, data: elements?.kind === 'floats' ? Array.from(elements.values) : Array.from(data) };
}
