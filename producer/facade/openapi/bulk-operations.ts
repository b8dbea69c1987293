import { BINARY, type Json, type Operation } from './operation.ts';
import { ofModel } from './triton-operations.ts';

const OPTIONS: readonly Json[] = [
  query('concurrency', 'lines in hand at one time; 16 unless given', { type: 'integer', minimum: 1, maximum: 64 }),
  query('order', 'whether answers come as they are done or in the order of the lines', {
    type: 'string',
    enum: ['done', 'input'],
  }),
  query('progress', 'whether a line tells once a second how far it is', { type: 'boolean' }),
];

/** Many inputs in one request. */
export const BULK_OPERATIONS: readonly Operation[] = ofModel({
  method: 'post',
  path: '/bulk',
  id: 'bulk',
  tag: 'Inference',
  summary: 'Run a model on many inputs, a line each',
  description:
    'Newline-delimited JSON both ways, streamed: each line of the body is a body of infer, and is answered by a line with its `index` and its `response` or `error`. The last line is the `summary`; an answer without one was cut off.',
  headers: OPTIONS,
  body: { required: false, content: { 'application/octet-stream': BINARY } },
  answer: {
    'application/x-ndjson': {
      schema: { description: 'lines of JSON: index and response or error; progress; summary' },
    },
  },
});

function query(name: string, description: string, schema: Json): Json {
  return { name, in: 'query', description, schema };
}
