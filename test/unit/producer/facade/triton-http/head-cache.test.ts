import { expect, test } from 'vitest';
import { HeadCache } from '../../../../../producer/facade/triton-http/head-cache.ts';
import { binaryInput, postInfer, splitAnswer } from '../../../../support/http-app.ts';
import { useInferFixture } from './infer-fixture.ts';

const fixture = useInferFixture();

test('parses a head that repeats once, and a changed one anew', () => {
  const cache = new HeadCache();
  const first = cache.parse(Buffer.from('{"id":"1"}data'), 10);
  expect(cache.parse(Buffer.from('{"id":"1"}atad'), 10)).toBe(first);
  expect(cache.parse(Buffer.from('{"id":"2"}data'), 10).root).toEqual({ id: '2' });
  expect(cache.parse(Buffer.from('{"id":"1"}data'), 10).root).toEqual({ id: '1' });
});

test('remembers the head itself, not the request that it came with', () => {
  const cache = new HeadCache();
  const body = Buffer.from('{"id":"1"}data');
  cache.parse(body, 10);
  body.fill(0);
  expect(cache.parse(Buffer.from('{"id":"1"}data'), 10).root).toEqual({ id: '1' });
});

test('never mixes requests up, whose heads alternate', async () => {
  for (let i = 0; i < 200; i++) {
    const columns = (i % 3) + 1;
    const data = Buffer.from(Float32Array.from({ length: columns }, () => i).buffer);
    const body = {
      id: String(i % 5),
      inputs: [binaryInput('x', 'FP32', [1, columns], data.length)],
      parameters: { binary_data_output: true },
    };
    const { head, tail } = splitAnswer(await postInfer(fixture.app, 'id_fp32', body, { binary: data }));
    expect(head).toMatchObject({ id: String(i % 5), outputs: [{ shape: [1, columns] }] });
    expect(tail).toEqual(data);
  }
});
