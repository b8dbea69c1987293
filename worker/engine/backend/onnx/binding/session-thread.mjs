// The other side of session-thread.ts. Plain JavaScript, because a worker thread is started from a file and not every
// supported Node can start one from TypeScript. The messages are described in messages.ts.
import { parentPort, workerData } from 'node:worker_threads';
import ort from 'onnxruntime-node';

/** Typed array and the package's name of each datatype. FP16 travels as bits; BF16 the package does not know. */
const KINDS = {
  BOOL: ['bool', Uint8Array],
  UINT8: ['uint8', Uint8Array],
  UINT16: ['uint16', Uint16Array],
  UINT32: ['uint32', Uint32Array],
  UINT64: ['uint64', BigUint64Array],
  INT8: ['int8', Int8Array],
  INT16: ['int16', Int16Array],
  INT32: ['int32', Int32Array],
  INT64: ['int64', BigInt64Array],
  FP16: ['float16', Uint16Array],
  FP32: ['float32', Float32Array],
  FP64: ['float64', Float64Array],
};

/** What the binding cannot carry without altering it. */
class Refused extends Error {}

// The package would hand FP16 over as a Float16Array where the engine has one, and its native part reads none of it
// ("expected 2, got 0" on Node 24). Without the class, in this thread alone, it takes the bits. It looks at first use.
delete globalThis.Float16Array;

const session = await load(workerData);
if (session) parentPort.on('message', receive);

async function load(options) {
  // Failures come back as errors; nothing is to be written to stderr by the library.
  ort.env.logLevel = 'fatal';
  try {
    const { path, exactInt8, sessionEntries, arenaShrinkage, customOpLibraries, gpu, device, strict, ...rest } =
      options;
    if (device !== undefined) rest.executionProviders = [{ name: 'cuda', deviceId: device }];
    const extra = nested({
      'session.intra_op.allow_spinning': '0',
      'session.inter_op.allow_spinning': '0',
      'session.x64quantprecision': exactInt8 ? '1' : '0',
      ...sessionEntries,
      ...(strict && { 'session.disable_cpu_ep_fallback': '1' }),
    });
    const loaded = await ort.InferenceSession.create(path, { ...rest, extra });
    parentPort.postMessage({ type: 'loaded', inputs: loaded.inputMetadata, outputs: loaded.outputMetadata });
    return loaded;
  } catch (error) {
    parentPort.postMessage({ type: 'failed', text: textOf(error) });
    return undefined;
  }
}

/** The package joins the names of nested objects with dots. */
function nested(entries) {
  const extra = {};
  for (const [key, value] of Object.entries(entries)) {
    const names = key.split('.');
    const last = names.pop();
    let inside = extra;
    for (const name of names) inside = inside[name] ??= {};
    inside[last] = value;
  }
  return extra;
}

async function receive(message) {
  if (message.type === 'quit') {
    await session.release();
    parentPort.close();
    return;
  }
  try {
    const outputs = await run(message);
    parentPort.postMessage(
      { type: 'outputs', outputs },
      outputs.map((tensor) => tensor.data.buffer),
    );
  } catch (error) {
    parentPort.postMessage({ type: error instanceof Refused ? 'refused' : 'failed', text: textOf(error) });
  }
}

async function run({ inputs, outputs }) {
  const feeds = Object.fromEntries(inputs.map((tensor) => [tensor.name, toBinding(tensor)]));
  const results = await session.run(
    feeds,
    outputs.map((output) => output.name),
  );
  return outputs.map(({ name, datatype }) => fromBinding(name, datatype, results[name]));
}

function toBinding({ name, datatype, shape, data }) {
  if (datatype === 'BYTES') return new ort.Tensor('string', decodeTexts(name, data), shape);
  const [type, TypedArray] = KINDS[datatype];
  return new ort.Tensor(type, new TypedArray(data.buffer), shape);
}

function fromBinding(name, datatype, tensor) {
  const shape = tensor.dims;
  if (datatype === 'BYTES') return { name, datatype, shape, data: encodeTexts(tensor.data) };
  const { buffer, byteOffset, byteLength } = tensor.data;
  return { name, datatype, shape, data: new Uint8Array(buffer, byteOffset, byteLength) };
}

/** The binding takes texts as JavaScript strings, which hold UTF-8 only, and cuts them at NUL. */
function decodeTexts(name, data) {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const texts = [];
  for (let offset = 0; offset < data.byteLength;) {
    const start = offset + 4;
    offset = start + view.getUint32(offset, true);
    const element = data.subarray(start, offset);
    const where = `input ${name}: element ${texts.length}`;
    if (element.includes(0)) throw new Refused(`${where} holds a NUL byte, which onnxruntime-node's binding alters`);
    try {
      texts.push(decoder.decode(element));
    } catch {
      throw new Refused(`${where} is not UTF-8, which onnxruntime-node's binding alters`);
    }
  }
  return texts;
}

function encodeTexts(texts) {
  const elements = texts.map((text) => Buffer.from(text, 'utf8'));
  const data = new Uint8Array(elements.reduce((sum, element) => sum + 4 + element.byteLength, 0));
  const view = new DataView(data.buffer);
  let offset = 0;
  for (const element of elements) {
    view.setUint32(offset, element.byteLength, true);
    data.set(element, offset + 4);
    offset += 4 + element.byteLength;
  }
  return data;
}

function textOf(error) {
  return error instanceof Error ? error.message : String(error);
}
