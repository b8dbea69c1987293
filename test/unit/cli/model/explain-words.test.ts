import { describe, expect, it } from 'vitest';
import {
  batchingWords,
  durationWords,
  instanceWords,
  tensorWords,
  versionWords,
} from '../../../../cli/commands/model/explain-words.ts';
import { normaliseModelConfig } from '../../../../shared/model/normalise-config.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import type { ModelConfig } from '../../../../shared/proto/generated/model_config_pb.ts';

const config = (text: string): ModelConfig =>
  normaliseModelConfig(parseModelConfig(`name: "m" backend: "onnxruntime" ${text}`, 'config.pbtxt'));

function inputWords(maxBatchSize: number, tensor: string): string {
  const parsed = config(`max_batch_size: ${maxBatchSize} input { name: "x" ${tensor} }`);
  return tensorWords(parsed, parsed.input[0]!).words;
}

describe('what a model takes', () => {
  it.each([
    [8, 'data_type: TYPE_INT32 dims: [ 16 ]', '1 to 8 rows of 16 INT32 numbers'],
    [1, 'data_type: TYPE_FP32 dims: [ 1 ]', '1 row of 1 FP32 number'],
    [8, 'data_type: TYPE_INT64 dims: [ -1 ]', '1 to 8 rows of any number of INT64 numbers'],
    [16, 'data_type: TYPE_FP32 dims: [ 3, -1, 224 ]', '1 to 16 rows of 3 x any x 224 FP32 numbers'],
    [0, 'data_type: TYPE_UINT8 dims: [ 2, 2 ]', '2 x 2 UINT8 numbers'],
    [4, 'data_type: TYPE_STRING dims: [ 1 ]', '1 to 4 rows of 1 BYTES text'],
    [4, 'data_type: TYPE_BOOL dims: [ 2 ] optional: true', '1 to 4 rows of 2 BOOL values; may be left out'],
    [
      4,
      'data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] }',
      '1 to 4 rows of 1 FP32 number; the model itself sees a plain number',
    ],
    [
      4,
      'data_type: TYPE_FP32 dims: 4 reshape { shape: [ 2, 2 ] }',
      '1 to 4 rows of 4 FP32 numbers; the model itself sees 2 x 2',
    ],
  ])('with max_batch_size %i: %s', (maxBatchSize, tensor, words) => {
    expect(inputWords(maxBatchSize, tensor)).toBe(words);
  });

  it('has the shape that clients send, batch dimension in front', () => {
    const parsed = config(
      'max_batch_size: 8 output { name: "y" data_type: TYPE_FP32 dims: 3 label_filename: "l.txt" }',
    );
    expect(tensorWords(parsed, parsed.output[0]!)).toEqual({
      name: 'y',
      datatype: 'FP32',
      shape: [-1, 3],
      words: '1 to 8 rows of 3 FP32 numbers; labels in l.txt',
    });
  });
});

describe('what loading has found out about batches', () => {
  const report = {
    merges: true,
    maxRows: 8,
    delayMs: 0.5,
    auto: true,
    goalMs: 50,
    reason: 'auto: a run of 8 takes 3 ms',
    curve: [
      { rows: 1, ms: 2 },
      { rows: 8, ms: 3 },
    ],
    company: { relative: 0.0123, maxAbs: 0.5, cosine: 0.99, tolerance: 0.02 },
  };
  const text = (
    changes: object,
    pbtxt = 'max_batch_size: 16 dynamic_batching { max_queue_delay_microseconds: 2000 }',
  ) => batchingWords(config(pbtxt), { ...report, ...changes }).join('\n');

  it('takes the place of what the config says', () => {
    const words = text({});
    expect(words).toContain('Rows and delay are chosen from the measured times, for slo_p99_ms 50');
    expect(words).toContain('Auto: a run of 8 takes 3 ms.');
    expect(words).toContain('Now a run starts with 8 rows, fewer wait at most 500 µs from the arrival');
    expect(words).not.toContain('at most 2 ms');
    expect(text({ maxRows: 1, delayMs: 0 })).toContain('each request is a run of its own, and nobody waits');
    expect(text({ auto: false, delayMs: 0, goalMs: undefined, reason: 'rows gain nothing' })).toContain(
      'Rows gain nothing.\nNow a run starts with 8 rows, fewer as soon as an instance is idle.',
    );
  });

  it('stands beside it where the config holds', () => {
    const words = text({ auto: false, goalMs: undefined, reason: '', maxRows: 16, delayMs: 2 });
    expect(words).toContain('at most 2 ms');
    expect(words).toContain('by rows: 1: 2 ms, 8: 3 ms; a row takes 375 µs in a run of 8, 2 ms alone');
    expect(words).toContain('an answer moves by up to 0.012 of its size; batch_tolerance is 0.02');
    expect(text({ company: { ...report.company, relative: 0 } })).toContain('an answer does not move');
  });

  it('says why requests are not merged', () => {
    const words = text({ merges: false, reason: 'the answer for a row depends on the rows beside it' });
    expect(words).toBe('Each request is a run of its own.\nThe answer for a row depends on the rows beside it.');
  });
});

describe('what becomes of requests', () => {
  const text = (pbtxt: string) => batchingWords(config(pbtxt)).join('\n');

  it('says that nothing is merged without a batch dimension, without a batcher, and with batches of one', () => {
    expect(text('')).toContain('max_batch_size is 0 or not set');
    expect(text('max_batch_size: 8')).toContain('up to 8 rows, is a run of its own');
    expect(text('max_batch_size: 8')).toContain('dynamic_batching { } would merge requests');
    expect(text('max_batch_size: 1 dynamic_batching { }')).toContain('nothing to merge');
  });

  it('names delay and preferred sizes, and when a lone request runs', () => {
    const words = text(
      'max_batch_size: 16 dynamic_batching { preferred_batch_size: [ 8, 4 ] max_queue_delay_microseconds: 2000 }',
    );
    expect(words).toContain('share a run of up to 16 rows');
    expect(words).toContain('as soon as 4, 8 or 16 rows wait');
    expect(words).toContain('at most 2 ms');
    expect(words).toContain('A lone request runs at once after 8 waits');
    expect(text('max_batch_size: 16 dynamic_batching { }')).toContain('No delay: whatever waits runs');
  });

  it('says which requests cannot share a run', () => {
    const input = (rest: string) =>
      `max_batch_size: 4 dynamic_batching { } input { name: "x" data_type: TYPE_FP32 ${rest} }`;
    expect(text(input('dims: [ 3 ]'))).not.toContain('Only requests');
    expect(text(input('dims: [ -1 ]'))).toContain('Only requests with equal dimensions share a run.');
    expect(text(input('dims: [ -1 ] optional: true'))).toContain('with equal dimensions and the same inputs share');
  });

  it('says which lengths are padded to share a run, and which mask is made up', () => {
    const parameter = (key: string, value: string) =>
      `parameters { key: "${key}" value { string_value: "${value}" } } `;
    const padded = (inputs: string, rest = '') => `max_batch_size: 4 dynamic_batching { }
      input { name: "ids" data_type: TYPE_INT64 dims: -1 } input { name: "mask" data_type: TYPE_INT64 dims: -1 }
      ${parameter('padding.inputs', inputs)} ${rest}`;
    const both = 'ids=0, mask=generated_mask';
    const words = text(padded(both));
    expect(words).toContain(
      'the shorter ones are padded, in ids, mask.\nOnly lengths between the same powers of two do',
    );
    expect(words).not.toContain('equal dimensions');
    expect(text(padded('ids=0'))).toContain('Only requests with equal dimensions share a run.');
    const rounded = parameter('padding.length_buckets', '16,32') + parameter('padding.round_up', 'true');
    expect(text(padded(both, rounded))).toContain(
      'Only lengths of one bucket do (up to 16, 32); beyond 32 only equal ones.\nEvery run has the length of its bucket',
    );
    const whole = config(padded(both));
    expect(tensorWords(whole, whole.input[1]!).words).toContain('may be left out and is ones then');
  });

  it('tells the queue policies and the priorities', () => {
    const words = text(`max_batch_size: 4 dynamic_batching {
      preserve_ordering: true
      priority_levels: 3 default_priority_level: 2
      default_queue_policy { default_timeout_microseconds: 1500000 allow_timeout_override: true max_queue_size: 7 }
      priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 100 } }
      priority_queue_policy { key: 3 value { } }
    }`);
    expect(words).toContain('Answers leave in the order');
    expect(words).toContain('3 priority levels, 1 first; a request without a priority has 2');
    expect(words).toContain(
      'In the queue: after 1.5 s a request is refused; a request may ask for less time; at most 7',
    );
    expect(words).toContain('In the queue of priority 1: after 100 µs a request goes behind those that are in time.');
    expect(words).toContain('In the queue of priority 3: no limits.');
  });

  it('leaves an ensemble to its steps', () => {
    expect(text('platform: "ensemble" ensemble_scheduling { }')).toContain('each step is a request to its model');
  });
});

describe('the rest', () => {
  it('counts instances and their threads', () => {
    expect(instanceWords(config('max_batch_size: 1'))).toEqual(['2 runs at once on the CPU, 1 thread each']);
    const threads = 'parameters { key: "intra_op_thread_count" value { string_value: "4" } }';
    expect(instanceWords(config(`instance_group { count: 1 kind: KIND_CPU } ${threads}`))).toEqual([
      '1 run at once on the CPU, 4 threads each',
    ]);
    expect(instanceWords(config('instance_group { count: 3 kind: KIND_GPU gpus: [ 0, 1 ] }'))).toEqual([
      '3 runs at once on GPU 0, 1',
    ]);
  });

  it('says which versions the policy picks, and which it leaves', () => {
    const words = (policy: string, versions: string[]) => versionWords(config(policy), ['1', '2', '10'], versions);
    expect(words('', ['10'])).toBe('10  (policy: the latest; not served: 1, 2)');
    expect(words('version_policy { latest { num_versions: 2 } }', ['2', '10'])).toBe(
      '2, 10  (policy: the latest 2; not served: 1)',
    );
    expect(words('version_policy { all { } }', ['1', '2', '10'])).toBe('1, 2, 10  (policy: all)');
    expect(words('version_policy { specific { versions: [ 1, 7 ] } }', ['1'])).toContain('policy: specific: 1, 7;');
  });

  it('writes durations in the largest fitting unit', () => {
    expect([500n, 2000n, 1_500_000n].map(durationWords)).toEqual(['500 µs', '2 ms', '1.5 s']);
  });
});
