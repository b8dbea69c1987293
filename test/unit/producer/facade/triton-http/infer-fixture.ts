import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect } from 'vitest';
import { DATATYPES } from '../../../../../shared/tensor/datatype.ts';
import { FakeDispatcher, fakeIdentity, fakeModel, fakeSpec } from '../../../../support/fake-dispatcher.ts';
import {
  errorText,
  type InferAnswer,
  type InferOptions,
  jsonInput,
  postInfer,
  testApp,
} from '../../../../support/http-app.ts';

export interface InferFixture {
  readonly app: FastifyInstance;
  readonly dispatcher: FakeDispatcher;
  /** Posts a request that must be refused, and gives the error's text. */
  refused(model: string, body: unknown, options?: InferOptions, status?: number): Promise<string>;
}

/**
 * An application over identity models for each test of a file. After every test, the bad requests above all, it must
 * still answer a good one.
 */
export function useInferFixture(): InferFixture {
  let dispatcher: FakeDispatcher;
  let app: FastifyInstance;
  beforeEach(() => {
    dispatcher = new FakeDispatcher(models());
    app = testApp(dispatcher, { maxJsonBytes: 1_000_000, maxBodyBytes: 2_000_000 });
  });
  afterEach(async () => {
    const good = await postInfer(app, 'id_fp32', { inputs: [jsonInput('x', 'FP32', [1, 2], [1, 2.5])] });
    expect(good.json<InferAnswer>().outputs[0]?.data).toEqual([1, 2.5]);
    await app.close();
  });
  return {
    get app() {
      return app;
    },
    get dispatcher() {
      return dispatcher;
    },
    async refused(model, body, options = {}, status = 400) {
      const response = await postInfer(app, model, body, options);
      const text = errorText(response);
      expect(response.statusCode, text).toBe(status);
      return text;
    },
  };
}

function models() {
  return [
    ...DATATYPES.map((datatype) => fakeIdentity(`id_${datatype.toLowerCase()}`, datatype)),
    fakeIdentity('id_nobatch', 'FP32', { maxBatchSize: 0 }),
    fakeIdentity('id_nobatch_bytes', 'BYTES', {
      maxBatchSize: 0,
      inputs: [fakeSpec('x', 'BYTES', [-1])],
      outputs: [fakeSpec('y', 'BYTES', [-1])],
    }),
    fakeIdentity('id_one_text', 'BYTES', {
      inputs: [fakeSpec('x', 'BYTES', [-1, 1])],
      outputs: [fakeSpec('y', 'BYTES', [-1, 1])],
    }),
    fakeModel('scalar', { maxBatchSize: 0, outputs: [fakeSpec('y', 'FP32', [])] }),
    fakeModel('two_in', {
      inputs: [fakeSpec('a', 'FP32', [-1, 4]), fakeSpec('b', 'INT32', [-1, 2], { optional: true })],
      outputs: [fakeSpec('sum', 'FP32', [-1, 4]), fakeSpec('second', 'INT32', [-1, 2])],
    }),
    fakeModel('classify', {
      outputs: [fakeSpec('y', 'FP32', [-1, 5], { labels: ['ant', 'bee', 'cat', 'dog', 'elk'] })],
    }),
  ];
}

/** The wire layout of BYTES. */
export function bytesOf(elements: readonly string[]): Buffer {
  return Buffer.concat(
    elements.flatMap((text) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(Buffer.byteLength(text));
      return [length, Buffer.from(text)];
    }),
  );
}
