import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { findQueueParameterProblems, queueParametersOf } from '../../../../shared/model/queue-parameters.ts';
import { ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';

function configOf(parameters: Record<string, string>) {
  const entries = Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }] as const);
  return create(ModelConfigSchema, { parameters: Object.fromEntries(entries) });
}

test('a config without them limits nothing and weighs one', () => {
  expect(queueParametersOf(configOf({}))).toEqual({ maxRequests: 0, maxRows: 0, maxBytes: 0, weight: 1 });
});

test('reads what a config says', () => {
  const config = configOf({
    queue_max_requests: '5',
    queue_max_rows: '60',
    queue_max_bytes: '7000000',
    queue_weight: '8',
  });
  expect(findQueueParameterProblems(config)).toEqual([]);
  expect(queueParametersOf(config)).toEqual({ maxRequests: 5, maxRows: 60, maxBytes: 7_000_000, weight: 8 });
});

test.each([
  ['queue_max_requests', '0', 'parameter "queue_max_requests": expected a whole number from 1 up, got "0"'],
  ['queue_max_rows', '1.5', 'parameter "queue_max_rows": expected a whole number from 1 up, got "1.5"'],
  ['queue_max_bytes', '1 GB', 'parameter "queue_max_bytes": expected a whole number from 1 up, got "1 GB"'],
  ['queue_weight', '1001', 'parameter "queue_weight": expected a whole number from 1 to 1000, got "1001"'],
])('%s "%s" is refused', (key, value, problem) => {
  expect(findQueueParameterProblems(configOf({ [key]: value }))).toEqual([problem]);
});
