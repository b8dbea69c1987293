import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeAnswer } from '../../../client/decode.ts';
import { datatypeOfData, encodeInput } from '../../../client/encode.ts';
import { readEvents } from '../../../client/events.ts';
import type { InputTensor } from '../../../client/types.ts';
import { DATATYPES, type Datatype } from '../../../shared/tensor/datatype.ts';

/** What infer would answer with these tensors. */
function answerOf(inputs: ReturnType<typeof encodeInput>[]): { body: Uint8Array; headerLength: number } {
  const outputs = inputs.map(({ name, datatype, shape, data }) => {
    return { name, datatype, shape, parameters: { binary_data_size: data.byteLength } };
  });
  const json = Buffer.from(JSON.stringify({ model_name: 'm', model_version: '1', outputs }));
  return { body: Buffer.concat([json, ...inputs.map(({ data }) => data)]), headerLength: json.length };
}

const ELEMENTS: Record<Datatype, { data: InputTensor['data']; back: unknown }> = {
  BOOL: { data: [true, false], back: new Uint8Array([1, 0]) },
  UINT8: { data: [0, 255], back: new Uint8Array([0, 255]) },
  UINT16: { data: [0, 65_535], back: new Uint16Array([0, 65_535]) },
  UINT32: { data: [0, 2 ** 32 - 1], back: new Uint32Array([0, 2 ** 32 - 1]) },
  UINT64: { data: [0, 2n ** 64n - 1n], back: new BigUint64Array([0n, 2n ** 64n - 1n]) },
  INT8: { data: [-128, 127], back: new Int8Array([-128, 127]) },
  INT16: { data: [-32_768, 32_767], back: new Int16Array([-32_768, 32_767]) },
  INT32: { data: [-(2 ** 31), 2 ** 31 - 1], back: new Int32Array([-(2 ** 31), 2 ** 31 - 1]) },
  INT64: { data: [-(2n ** 63n), 2], back: new BigInt64Array([-(2n ** 63n), 2n]) },
  FP16: { data: new Uint16Array([0x3c00, 0xc000]), back: new Uint16Array([0x3c00, 0xc000]) },
  FP32: { data: [1.5, NaN], back: new Float32Array([1.5, NaN]) },
  FP64: { data: [Math.PI, -Infinity], back: new Float64Array([Math.PI, -Infinity]) },
  BF16: { data: new Uint16Array([0x3f80, 0]), back: new Uint16Array([0x3f80, 0]) },
  BYTES: { data: ['grüße', new Uint8Array([0, 255])], back: [Buffer.from('grüße'), Buffer.from([0, 255])] },
};

test.each(DATATYPES)('%s comes back as it was sent', (datatype) => {
  const { data, back } = ELEMENTS[datatype];
  const { body, headerLength } = answerOf([
    encodeInput('odd', { shape: [1], data: [1] }, 'UINT8'), // the next one lies askew
    encodeInput('x', { shape: [2], data }, datatype),
  ]);
  const { outputs } = decodeAnswer(body, headerLength);
  const elements = outputs['x']!.data;
  if (datatype === 'BYTES') expect([...elements].map((element) => Buffer.from(element as Uint8Array))).toEqual(back);
  else expect(elements).toEqual(back);
  expect(outputs['x']).toMatchObject({ datatype, shape: [2] });
});

describe('an input that cannot be sent', () => {
  test.each<[InputTensor, Datatype, string]>([
    [{ shape: [2], data: [1] }, 'FP32', "input 'x': shape [2] has 2 elements, got 1"],
    [{ shape: [-1], data: [1] }, 'FP32', "input 'x': expected a shape of whole numbers, got [-1]"],
    [{ shape: [1], data: [256] }, 'UINT8', "input 'x', element 0: UINT8 cannot hold 256"],
    [{ shape: [1], data: [1.5] }, 'INT64', "input 'x', element 0: INT64 cannot hold 1.5"],
    [{ shape: [1], data: [2n ** 63n] }, 'INT64', "input 'x', element 0: INT64 cannot hold 9223372036854775808n"],
    [{ shape: [1], data: ['a'] }, 'FP32', 'input \'x\', element 0: FP32 cannot hold "a"'],
    [{ shape: [1], data: [1e39] }, 'FP32', "input 'x', element 0: FP32 cannot hold 1e+39"],
    [{ shape: [1], data: [1] }, 'FP16', "input 'x', element 0: FP16 cannot hold 1"],
    [{ shape: [1], data: [1] }, 'BYTES', "input 'x', element 0: BYTES takes texts or bytes, got 1"],
    [{ shape: [1], data: new Float32Array(1) }, 'FP64', "input 'x': FP64 takes a Float64Array, got a Float32Array"],
  ])('%o as %s is refused', (tensor, datatype, message) => {
    expect(() => encodeInput('x', tensor, datatype)).toThrow(message);
  });
});

test('what data alone says of its datatype', () => {
  expect(datatypeOfData(new Float32Array(1))).toBe('FP32');
  expect(datatypeOfData(new BigInt64Array(1))).toBe('INT64');
  expect(datatypeOfData(['a'])).toBe('BYTES');
  expect(datatypeOfData([true])).toBe('BOOL');
  for (const data of [new Uint8Array(1), new Uint16Array(1), [1], []]) expect(datatypeOfData(data)).toBeUndefined();
});

test.each([
  ['no JSON', Buffer.from('<html>'), undefined],
  ['no outputs', Buffer.from('{}'), undefined],
  [
    'fewer bytes than it says',
    answerOf([encodeInput('x', { shape: [9], data: new Uint8Array(9) }, 'UINT8')]).body.subarray(0, -1),
    'cut',
  ],
] as const)('an answer with %s is an error and no crash', (_what, body, cut) => {
  const { headerLength } = answerOf([encodeInput('x', { shape: [9], data: new Uint8Array(9) }, 'UINT8')]);
  expect(() => decodeAnswer(body, cut === undefined ? undefined : headerLength)).toThrow(/the server answered/);
});

test('a stream of events that breaks or falls silent is an error of the client', async () => {
  const broken = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.error(new TypeError('terminated')),
  });
  await expect(readEvents(broken).next()).rejects.toMatchObject({ name: 'MillraceError', status: 0 });
  await expect(readEvents(new ReadableStream(), 1).next()).rejects.toThrow('the server was silent for 1 ms');
});

test('events come whole, however their bytes are cut', async () => {
  const text = ': hello\n\nevent: queued\ndata: {"a":\r\ndata: "ü"}\r\n\r\ndata:2\n\ndata: unfinished\n';
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 80 }), async (cuts) => {
      const bytes = new TextEncoder().encode(text);
      let offset = 0;
      const stream = new ReadableStream<Uint8Array>({
        pull(controller) {
          const size = cuts.shift() ?? bytes.length;
          if (offset >= bytes.length) controller.close();
          else controller.enqueue(bytes.slice(offset, (offset += size)));
        },
      });
      const events: string[] = [];
      for await (const data of readEvents(stream)) events.push(data);
      expect(events).toEqual(['{"a":\n"ü"}', '2']);
    }),
  );
});
