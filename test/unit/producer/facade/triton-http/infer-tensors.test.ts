import { describe, expect, test } from 'vitest';
import { binaryInput, type InferAnswer, jsonInput, postInfer } from '../../../../support/http-app.ts';
import { bytesOf, useInferFixture } from './infer-fixture.ts';

const fixture = useInferFixture();

describe('outputs', () => {
  const inputs = [jsonInput('a', 'FP32', [1, 4], [1, 2, 3, 4]), jsonInput('b', 'INT32', [1, 2], [1, 2])];

  test('are all there when none is listed (A21)', async () => {
    for (const more of [{}, { outputs: [] }]) {
      const response = await postInfer(fixture.app, 'two_in', { inputs, ...more });
      expect(response.json<InferAnswer>().outputs.map(({ name }) => name)).toEqual(['sum', 'second']);
    }
  });

  test('are only those listed, each in the form wished, whatever the default', async () => {
    const outputs = [{ name: 'second', parameters: { binary_data: false } }];
    const response = await postInfer(fixture.app, 'two_in', {
      inputs,
      outputs,
      parameters: { binary_data_output: true },
    });
    expect(response.json<InferAnswer>().outputs).toEqual([
      { name: 'second', datatype: 'INT32', shape: [1, 2], data: [1, 2] },
    ]);
  });

  test('are refused by name when unknown, doubled, malformed or too many (A21)', async () => {
    expect(await fixture.refused('two_in', { inputs, outputs: [{ name: 'NO' }] })).toBe(
      'model two_in: unknown output NO, expected sum, second',
    );
    expect(await fixture.refused('two_in', { inputs, outputs: [{ name: 'sum' }, { name: 'sum' }] })).toContain('twice');
    const many = Array.from({ length: 10_000 }, (_, i) => ({ name: `o${i}` }));
    expect(await fixture.refused('two_in', { inputs, outputs: many })).toContain('10000 entries, at most 1024');
    expect(await fixture.refused('two_in', { inputs, outputs: 'sum' })).toContain('outputs must be an array');
    expect(await fixture.refused('two_in', { inputs, outputs: [{}] })).toContain('outputs[0]: name must be a string');
    expect(
      await fixture.refused('two_in', { inputs, outputs: [{ name: 'sum', parameters: { binary_data: 1 } }] }),
    ).toContain('binary_data must be true or false');
  });

  const scores = { inputs: [jsonInput('x', 'FP32', [2, 5], [1, 5, 3, 2, 4, 0.5, 0.5, 0.5, 0.25, -1])] };

  test('are the best classes with labels when asked for (A21)', async () => {
    const outputs = [{ name: 'y', parameters: { classification: 2 } }];
    const response = await postInfer(fixture.app, 'classify', { ...scores, outputs });
    expect(response.json<InferAnswer>().outputs).toEqual([
      {
        name: 'y',
        datatype: 'BYTES',
        shape: [2, 2],
        data: ['5.000000:1:bee', '4.000000:4:elk', '0.500000:0:ant', '0.500000:1:bee'],
      },
    ]);
  });

  test('cut the number of classes to what there is, and none means the tensor', async () => {
    const wish = (classification: unknown) => ({ ...scores, outputs: [{ name: 'y', parameters: { classification } }] });
    const all = await postInfer(fixture.app, 'classify', wish(99));
    expect(all.json<InferAnswer>().outputs[0]?.shape).toEqual([2, 5]);
    const none = await postInfer(fixture.app, 'classify', wish(0));
    expect(none.json<InferAnswer>().outputs[0]?.datatype).toBe('FP32');
    for (const count of [-1, '2', 1.5, true]) {
      expect(await fixture.refused('classify', wish(count))).toContain('classification must be a whole number');
    }
  });

  test('without a batch dimension all elements compete; integers have no decimals', async () => {
    const outputs = [{ name: 'y', parameters: { classification: 2 } }];
    const flat = await postInfer(fixture.app, 'id_nobatch', {
      inputs: [jsonInput('x', 'FP32', [2, 2], [1, 4, 3, 2])],
      outputs,
    });
    expect(flat.json<InferAnswer>().outputs[0]).toMatchObject({ shape: [2], data: ['4.000000:1', '3.000000:2'] });
    const longs = await postInfer(fixture.app, 'id_int64', {
      inputs: [jsonInput('x', 'INT64', [1, 3], [5, 7, 6])],
      outputs,
    });
    expect(longs.json<InferAnswer>().outputs[0]?.data).toEqual(['7:1', '6:2']);
  });

  test.each(['BOOL', 'BYTES', 'FP16', 'BF16'] as const)('cannot be classified as %s', async (datatype) => {
    const binary = datatype === 'BYTES' ? bytesOf(['a']) : Buffer.alloc(datatype === 'BOOL' ? 1 : 2);
    const outputs = [{ name: 'y', parameters: { classification: 1 } }];
    const body = { inputs: [binaryInput('x', datatype, [1, 1], binary.length)], outputs };
    expect(await fixture.refused(`id_${datatype.toLowerCase()}`, body, { binary })).toContain(
      `not possible for datatype ${datatype}`,
    );
  });
});

describe('inputs', () => {
  const a = jsonInput('a', 'FP32', [1, 4], [1, 2, 3, 4]);
  const b = jsonInput('b', 'INT32', [1, 2], [1, 2]);

  test('are refused by name when twice, unknown or missing (A24)', async () => {
    expect(await fixture.refused('two_in', { inputs: [a, a] })).toBe('model two_in: input a is given twice');
    expect(await fixture.refused('two_in', { inputs: [a, { ...b, name: 'NO' }] })).toBe(
      'model two_in: unknown input NO, expected a, b',
    );
    expect(await fixture.refused('two_in', { inputs: [b] })).toBe(
      'model two_in: input a is missing, expected a, b, got b',
    );
    expect((await postInfer(fixture.app, 'two_in', { inputs: [a] })).statusCode).toBe(200);
  });

  test('are refused with a datatype that is not the model’s, naming both (A24)', async () => {
    for (const datatype of ['FLOAT', 'fp32', '', 7, null, 'INT8']) {
      const text = await fixture.refused('id_bytes', { inputs: [{ name: 'x', shape: [1, 1], datatype, data: [1] }] });
      expect(text).toContain('model id_bytes, input x: ');
      expect(text).toMatch(/expected (datatype )?BYTES/);
      expect(text).toContain(String(datatype));
    }
  });

  test('must fit the model’s shape, both of which are named', async () => {
    const body = { inputs: [jsonInput('a', 'FP32', [1, 3], [1, 2, 3])] };
    expect(await fixture.refused('two_in', body)).toBe('model two_in, input a: expected shape [-1,4], got [1,3]');
    expect(await fixture.refused('two_in', { inputs: [jsonInput('a', 'FP32', [4], [1, 2, 3, 4])] })).toContain(
      'got [4]',
    );
  });

  test('must have one batch size, within the model’s (C06)', async () => {
    const two = jsonInput('b', 'INT32', [2, 2], [1, 2, 3, 4]);
    expect(await fixture.refused('two_in', { inputs: [a, two] })).toContain('a has 1 and b has 2');
    const nine = { inputs: [jsonInput('x', 'FP32', [9, 1], new Array(9).fill(1))] };
    expect(await fixture.refused('id_fp32', nine)).toBe('model id_fp32: batch-size must be <= 8, got 9');
    expect(await fixture.refused('id_fp32', { inputs: [jsonInput('x', 'FP32', [0, 1], [])] })).toContain('at least 1');
  });
});
