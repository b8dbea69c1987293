import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { InferRequest } from '../../../../shared/infer/request.ts';
import {
  decodeBundle,
  encodeBundle,
  keepItems,
  type OutgoingItem,
  payloadKeys,
  requestOf,
} from '../../../../shared/wire/job.ts';

function outgoing(sequence: number, request: Partial<InferRequest>): OutgoingItem {
  return {
    sequence,
    callId: `call-${sequence}`,
    request: { id: '', model: 'm', version: '', inputs: [], outputs: [], parameters: {}, ...request },
    priority: 0,
    deadlineMs: 1234.6,
  };
}

const bytes = (length: number, fill: number) =>
  ({ name: `t${fill}`, datatype: 'UINT8', shape: [length], data: Buffer.alloc(length, fill) }) as const;

/** What a worker reads of what a producer wrote. */
function roundTrip(items: readonly OutgoingItem[]) {
  const { data, payloads } = encodeBundle('p', 'b', 'm', items);
  const bundle = decodeBundle(JSON.parse(JSON.stringify(data)), 'm');
  const stored = new Map(payloads.map((payload) => [payload.key, Buffer.from(payload.data)]));
  return { bundle, payloads, requests: bundle.items.map((item) => requestOf(item, stored)) };
}

describe('a bundle', () => {
  it('packs small tensors of all its requests into one key and gives big ones their own', () => {
    const { payloads, requests, bundle } = roundTrip([
      outgoing(1, { inputs: [bytes(100, 1), bytes(16_384, 2)] }),
      outgoing(2, { inputs: [bytes(0, 3), bytes(50, 4)] }),
    ]);
    expect(payloads.map((payload) => payload.data.byteLength)).toEqual([150, 16_384]);
    expect(payloadKeys(bundle.items).sort()).toEqual(payloads.map((payload) => payload.key).sort());
    const lengths = requests.map((request) => request.inputs.map((input) => input.data.byteLength));
    expect(lengths).toEqual([
      [100, 16_384],
      [0, 50],
    ]);
    expect(requests[1]!.inputs[1]!.data[0]).toBe(4);
  });

  it('keeps what a request says', () => {
    const { bundle, requests } = roundTrip([
      { ...outgoing(7, { id: 'mine', version: '3', outputs: ['a'], parameters: { n: 2n ** 63n } }), priority: 2 },
    ]);
    expect(bundle.items[0]).toMatchObject({ sequence: 7, callId: 'call-7', priority: 2, deadlineMs: 1235 });
    expect(requests[0]).toEqual({
      id: 'mine',
      model: 'm',
      version: '3',
      outputs: ['a'],
      parameters: { n: 2n ** 63n },
      inputs: [],
    });
  });

  it('has no deadline when the call has none', () => {
    expect(roundTrip([{ ...outgoing(1, {}), deadlineMs: Infinity }]).bundle.items[0]!.deadlineMs).toBe(Infinity);
  });

  it('keeps a parameter called __proto__ a parameter', () => {
    const parameters = JSON.parse('{"__proto__": "x"}') as Record<string, string>;
    const [request] = roundTrip([outgoing(1, { parameters })]).requests;
    expect(Object.entries(request!.parameters)).toEqual([['__proto__', 'x']]);
    expect(Object.getPrototypeOf(request!.parameters)).toBe(Object.prototype);
  });

  it('puts no tensor into the job, only what it looks like', () => {
    const secret = Buffer.from('secretsecretsecret');
    const x = { name: 'x', datatype: 'UINT8', shape: [18], data: secret } as const;
    const text = JSON.stringify(encodeBundle('p', 'b', 'm', [outgoing(1, { inputs: [x] })]).data);
    expect(text).not.toContain('secret');
    expect(text).toContain('"shape":[18],"byteLength":18');
  });

  it('finds a lie about BYTES only when the data is there, and then before anybody uses it', () => {
    const text = { name: 't', datatype: 'BYTES', shape: [2], data: Buffer.from('\u0001\0\0\0a') } as const;
    expect(() => roundTrip([outgoing(1, { inputs: [text] })])).toThrow(/needs exactly 2 elements/);
  });

  it('says UNAVAILABLE when its tensors are gone', () => {
    const { bundle } = roundTrip([outgoing(1, { inputs: [bytes(3, 1)] })]);
    expect(() => requestOf(bundle.items[0]!, new Map())).toThrow(/no longer in the queue/);
  });

  it('refuses an offset outside of the payload', () => {
    const { bundle, payloads } = roundTrip([outgoing(1, { inputs: [bytes(3, 1)] })]);
    const short = new Map(payloads.map((payload) => [payload.key, Buffer.alloc(2)]));
    expect(() => requestOf(bundle.items[0]!, short)).toThrow(/announced with 3 bytes, 2 arrived/);
  });

  it('never does worse than an InferError on whatever JSON it is given', () => {
    const { data } = encodeBundle('p', 'b', 'm', [outgoing(1, { inputs: [bytes(3, 1)] })]);
    const good = JSON.parse(JSON.stringify(data)) as { items: object[] };
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom('callId', 'inputs', 'outputs', 'parameters', 'priority'),
        (value, key) => {
          for (const bad of [
            value,
            { ...good, items: value },
            { ...good, items: [{ ...good.items[0], [key]: value }] },
          ]) {
            try {
              const { items, refused } = decodeBundle(bad, 'm');
              expect(items.length + refused.length).toBeGreaterThan(0);
            } catch (error) {
              expect(error).toMatchObject({ code: 'INVALID_ARGUMENT' });
            }
          }
        },
      ),
    );
  });

  it('can be cut down to what is still to be answered, in a new order', () => {
    const { data } = encodeBundle('p', 'b', 'm', [outgoing(1, {}), outgoing(2, {}), outgoing(3, {})]);
    const kept = decodeBundle(JSON.parse(JSON.stringify(keepItems(JSON.parse(JSON.stringify(data)), [3, 1]))), 'm');
    expect(kept.items.map((item) => item.sequence)).toEqual([3, 1]);
  });
});
