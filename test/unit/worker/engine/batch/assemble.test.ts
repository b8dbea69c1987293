import { describe, expect, it } from 'vitest';
import { Pieces } from '../../../../../shared/tensor/pieces.ts';
import { createTensor, type PixelEncoding, type Tensor } from '../../../../../shared/tensor/tensor.ts';
import { Assembler } from '../../../../../worker/engine/batch/assemble.ts';
import { floats, floatsOf } from '../support/fake-instance.ts';
import { modelPlan, tensorPlan } from '../support/plans.ts';

const texts = (...values: string[]): Tensor => ({
  name: 'x',
  datatype: 'BYTES',
  shape: [values.length],
  data: new Uint8Array(values.flatMap((value) => [value.length, 0, 0, 0, ...Buffer.from(value)])),
});

describe('Assembler', () => {
  it('runs a single request where its data lies', () => {
    const tensor = floats('x', [1, 2], [1, 2]);
    expect(new Assembler(modelPlan()).assemble([{ inputs: [tensor] }], 1)[0]!.data).toBe(tensor.data);
  });

  it('copies a single request whose data is not aligned', () => {
    const bytes = new Uint8Array(9);
    bytes.set(floats('x', [1, 2], [1, 2]).data, 1);
    const tensor: Tensor = { name: 'x', datatype: 'FP32', shape: [1, 2], data: bytes.subarray(1) };
    const [merged] = new Assembler(modelPlan()).assemble([{ inputs: [tensor] }], 1);
    expect(merged!.data.byteOffset % 4).toBe(0);
    expect([...floatsOf(merged!)]).toEqual([1, 2]);
  });

  it('copies a request in pieces into the memory of the batch, and does not join it', () => {
    const data = Buffer.from(floats('x', [1, 4], [1, 2, 3, 4]).data);
    const pieced = () =>
      createTensor('x', 'FP32', [1, 4], new Pieces([data.subarray(0, 5), data.subarray(5)], data.length));
    const alone = pieced();
    expect([...floatsOf(new Assembler(modelPlan()).assemble([{ inputs: [alone] }], 1)[0]!)]).toEqual([1, 2, 3, 4]);
    const members = [pieced(), floats('x', [1, 4], [5, 6, 7, 8]), pieced()];
    const [merged] = new Assembler(modelPlan()).assemble(
      members.map((x) => ({ inputs: [x] })),
      3,
    );
    expect([...floatsOf(merged!)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4]);
    for (const { pieces } of [alone, ...members]) expect(pieces?.isJoined).not.toBe(true);
  });

  it('runs a request in pieces where it lies once somebody has joined it', () => {
    const data = Buffer.from(floats('x', [1, 2], [1, 2]).data);
    const tensor = createTensor('x', 'FP32', [1, 2], new Pieces([data.subarray(0, 4), data.subarray(4)], data.length));
    const joined = tensor.data;
    expect(new Assembler(modelPlan()).assemble([{ inputs: [tensor] }], 1)[0]!.data).toBe(joined);
  });

  it('writes the rows of several requests one after the other', () => {
    const members = [floats('x', [2, 2], [1, 2, 3, 4]), floats('x', [1, 2], [5, 6])].map((x) => ({ inputs: [x] }));
    const [merged] = new Assembler(modelPlan()).assemble(members, 3);
    expect(merged).toMatchObject({ name: 'x', datatype: 'FP32', shape: [3, 2] });
    expect([...floatsOf(merged!)]).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('uses the same memory for each batch and gives no more of it than the batch fills', () => {
    const assembler = new Assembler(modelPlan());
    const batch = (rows: number) => Array.from({ length: rows }, () => ({ inputs: [floats('x', [1, 1], [rows])] }));
    const large = assembler.assemble(batch(8), 8)[0]!;
    const small = assembler.assemble(batch(2), 2)[0]!;
    expect(small.data.buffer).toBe(large.data.buffer);
    expect([...floatsOf(small)]).toEqual([2, 2]);
  });

  it('joins BYTES elements of any length', () => {
    const plan = modelPlan({ inputs: [tensorPlan('x', 'BYTES', [-1])] });
    const [merged] = new Assembler(plan).assemble([{ inputs: [texts('a')] }, { inputs: [texts('', 'long')] }], 3);
    expect(merged!.shape).toEqual([3]);
    expect(merged!.data).toEqual(texts('a', '', 'long').data);
  });

  it('gives the model the shape of its reshape', () => {
    const plan = modelPlan({ inputs: [tensorPlan('x', 'FP32', [-1, 4, -1], { modelShape: [-1, 2, 2, -1] })] });
    const member = { inputs: [floats('x', [1, 4, 1], [1, 2, 3, 4])] };
    expect(new Assembler(plan).assemble([member], 1)[0]!.shape).toEqual([1, 2, 2, 1]);
    expect(new Assembler(plan).assemble([member, member], 2)[0]!.shape).toEqual([2, 2, 2, 1]);
  });

  it('leaves out optional inputs that the requests do not bring', () => {
    const plan = modelPlan({
      inputs: [tensorPlan('o', 'FP32', [-1, 1], { optional: true }), tensorPlan('x', 'FP32', [-1, 1])],
    });
    const members = [1, 2].map((value) => ({ inputs: [floats('x', [1, 1], [value])] }));
    expect(new Assembler(plan).assemble(members, 2).map(({ name }) => name)).toEqual(['x']);
  });

  describe('with pixels', () => {
    const f = Math.fround;
    const value = (pixel: number, channel: number, { rescale, mean, std }: PixelEncoding) =>
      f(f(f(pixel * rescale) - mean[channel]!) / std[channel]!);
    const encoding = { rescale: 1 / 255, mean: [0.485, 0.456], std: [0.229, 0.224] };
    const pixels = [0, 10, 20, 30, 255, 128, 7, 9]; // 2 x 2 pixels of 2 channels

    it('writes each channel as a plane for NCHW', () => {
      const nchw: PixelEncoding = { ...encoding, layout: 'NCHW' };
      const plan = modelPlan({ inputs: [tensorPlan('x', 'FP32', [-1, 2, 2, 2])] });
      const tensor: Tensor = { ...floats('x', [1, 2, 2, 2], []), data: new Uint8Array(pixels), pixels: nchw };
      const [merged] = new Assembler(plan).assemble([{ inputs: [tensor] }, { inputs: [tensor] }], 2);
      const planes = [0, 1].flatMap((channel) =>
        [0, 1, 2, 3].map((i) => value(pixels[i * 2 + channel]!, channel, nchw)),
      );
      expect([...floatsOf(merged!)]).toEqual([...planes, ...planes]);
      expect(merged!.shape).toEqual([2, 2, 2, 2]);
      expect(merged!.pixels).toBeUndefined();
    });

    it('keeps the order for NHWC, and takes plain floats in the same batch', () => {
      const nhwc: PixelEncoding = { ...encoding, layout: 'NHWC' };
      const plan = modelPlan({ inputs: [tensorPlan('x', 'FP32', [-1, 2, 2, 2])] });
      const tensor: Tensor = { ...floats('x', [1, 2, 2, 2], []), data: new Uint8Array(pixels), pixels: nhwc };
      const plain = floats('x', [1, 2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]);
      const [merged] = new Assembler(plan).assemble([{ inputs: [plain] }, { inputs: [tensor] }], 2);
      expect([...floatsOf(merged!)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, ...pixels.map((p, i) => value(p, i % 2, nhwc))]);
    });

    it('refuses an encoding whose channels are not those of the tensor', () => {
      const plan = modelPlan({ inputs: [tensorPlan('x', 'FP32', [-1, 4, 1, 2])] });
      const wrong: PixelEncoding = { ...encoding, layout: 'NCHW' };
      const tensor: Tensor = { ...floats('x', [1, 4, 1, 2], []), data: new Uint8Array(pixels), pixels: wrong };
      expect(() => new Assembler(plan).assemble([{ inputs: [tensor] }], 1)).toThrow(/2 channels/);
    });
  });
});
