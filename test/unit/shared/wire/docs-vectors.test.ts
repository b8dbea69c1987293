import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { InferError } from '../../../../shared/errors.ts';
import type { InferRequest } from '../../../../shared/infer/request.ts';
import { decodeBundle, encodeBundle, requestOf } from '../../../../shared/wire/job.ts';
import { parseQueueKeys, QueueKeys } from '../../../../shared/wire/queue-keys.ts';
import { decodeReplies, encodeReplies, type Reply, replyFields } from '../../../../shared/wire/reply.ts';
import { decodeJob, signBundle } from '../../../../shared/wire/signed-job.ts';
import { f32 } from '../../../support/onnx/data.ts';
import { ROOT } from '../../../support/process.ts';

const DOCUMENT = readFileSync(join(ROOT, 'docs', 'wire.md'), 'utf8');

function vector(name: string): string {
  const [, text] = new RegExp(`<!-- vector: ${name} -->\n\n\`\`\`\\w+\n([^]*?)\n\`\`\``).exec(DOCUMENT) ?? [];
  if (text === undefined) throw new Error(`docs/wire.md has no vector '${name}'`);
  return text;
}

const x = (...values: number[]) => ({ name: 'x', datatype: 'FP32' as const, shape: [1, 2], data: f32(...values) });
const REQUESTS: InferRequest[] = [
  { id: 'a', model: 'm', version: '', outputs: ['y'], parameters: { top_k: 5n, flag: true }, inputs: [x(1, 2)] },
  { id: '', model: 'm', version: '2', outputs: [], parameters: {}, inputs: [x(3, 4)] },
];
const REPLIES: Reply[] = [
  {
    sequence: 0,
    response: {
      model: 'm',
      version: '1',
      outputs: [{ name: 'y', datatype: 'FP32', shape: [1, 2], data: f32(2, 3) }],
      parameters: {},
      timings: {
        queueUs: 10,
        computeInputUs: 1,
        computeInferUs: 20,
        computeOutputUs: 2,
        batchSize: 2,
        executions: 1,
        release: 'full',
      },
    },
  },
  { sequence: 1, error: new InferError('NOT_FOUND', 'no such version') },
];

describe('docs/wire.md', () => {
  const key = '{millrace}.tensor:py1:b1';

  test('shows a job as producers write it', () => {
    const items = REQUESTS.map((request, sequence) => {
      return { sequence, callId: `b1-${sequence}`, request, priority: sequence * 2, deadlineMs: 1_764_500_000_000 };
    });
    const { data, payloads } = encodeBundle('py1', 'b1', 'm', items);
    expect(JSON.parse(JSON.stringify(data))).toEqual(JSON.parse(vector('job')));
    expect(payloads.map((payload) => [payload.key, Buffer.from(payload.data).toString('hex')])).toEqual([
      [key, vector('tensors')],
    ]);
  });

  test('shows a job as workers read it', () => {
    const { items, refused } = decodeBundle(JSON.parse(vector('job')), 'm');
    const payloads = new Map([[key, Buffer.from(vector('tensors'), 'hex')]]);
    const plain = (request: InferRequest) => ({
      ...request,
      inputs: request.inputs.map((input) => ({ ...input, data: Buffer.from(input.data) })),
    });
    expect(items.map((item) => plain(requestOf(item, payloads)))).toEqual(REQUESTS.map(plain));
    expect(refused).toEqual([]);
  });

  test('shows a signed job and a signed answer', () => {
    const [, secret = ''] = /the secret `([^`]+)`/.exec(DOCUMENT) ?? [];
    const keys = new QueueKeys(parseQueueKeys(`k1 ${secret}`));
    const payloads = [{ key, data: Buffer.from(vector('tensors'), 'hex') }];
    const { data } = signBundle({ data: JSON.parse(vector('job')) as object, payloads }, 'py1', 'b1', 'm', keys);
    expect(data).toEqual(JSON.parse(vector('signed')));
    expect(decodeJob(JSON.parse(vector('signed')), 'm', 'm', keys).items).toHaveLength(2);
    const frame = Buffer.from(vector('reply'), 'hex');
    expect(replyFields(keys, 'py1', frame)).toEqual(['b', frame, 'k', 'k1', 'm', vector('reply-mac')]);
  });

  test('shows answers as they are written and read', () => {
    expect(encodeReplies(REPLIES).toString('hex')).toBe(vector('reply'));
    const [answer, error] = decodeReplies(Buffer.from(vector('reply'), 'hex'));
    expect(answer).toMatchObject({ sequence: 0, response: { model: 'm', version: '1' } });
    expect(error).toMatchObject({ sequence: 1, error: { code: 'NOT_FOUND', message: 'no such version' } });
  });
});
