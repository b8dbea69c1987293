import { JOB_STATES } from '../../../shared/jobs/job.ts';
import { JOB_STATE_HEADER } from '../jobs/job-state-header.ts';
import { answerHeader, BINARY, type Content, json, type Json, type Operation, ref } from './operation.ts';
import { HEADER_LENGTH, INFER_ANSWER, ofModel } from './triton-operations.ts';

const TIME = '^[0-9]{1,9}(\\.[0-9]{1,3})?(ms|s|m|h|d)?$';

/** Of a submission, for infer too. */
export const PREFER: Json = {
  name: 'Prefer',
  in: 'header',
  description: 'respond-async makes infer a job; wait=SECONDS waits so long for its answer before it is 202',
  schema: { type: 'string' },
};

const SETTINGS: readonly Json[] = [
  query('priority', '0 in line with everybody; above behind them, lower first', {
    type: 'integer',
    minimum: 0,
    maximum: 1_000_000,
  }),
  query('delay', 'not before, such as 30s or 2h; at most 7d', { type: 'string', pattern: TIME }),
  query('timeout', 'from then to when it must be answered; 1h unless given, at most 7d', {
    type: 'string',
    pattern: TIME,
  }),
  query('attempts', 'runs at most, when it fails in a way that may pass', { type: 'integer', minimum: 1, maximum: 10 }),
  query('keep', 'how long the answer is kept; 1h unless given, at most 7d', { type: 'string', pattern: TIME }),
  query(
    'webhook',
    'http or https URL that gets the job as JSON when it is over, signed; 400 where that is switched off',
    {
      type: 'string',
      format: 'uri',
      maxLength: 2048,
    },
  ),
];

const KEY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'the same key is the same job, and never runs twice',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!#-~]+$' },
};

const WAIT = query('wait', 'how long to wait for the end of the job, such as 30s; at most 5m', {
  type: 'string',
  pattern: TIME,
});

const JOB: Content = json(ref('Job'));
const EVENTS: Content = {
  'text/event-stream': { schema: { description: 'events queued, running and done, each with the job as JSON' } },
};
const PENDING = { 202: { description: 'the job, which is not over', content: JOB } };

const JOB_STATE = answerHeader(
  JOB_STATE_HEADER,
  'the state of the job whose end this is; absent where the server refuses',
);

/** Requests that nobody holds a connection for. */
export const JOB_OPERATIONS: readonly Operation[] = [
  ...ofModel({
    method: 'post',
    path: '/jobs',
    id: 'submitJob',
    tag: 'Jobs',
    summary: 'Run a model later',
    description: 'Takes the bodies of infer. 200 only for clients that wait and whose answer is there in time.',
    headers: [HEADER_LENGTH, PREFER, KEY, ...SETTINGS],
    body: { required: true, content: { ...json(ref('InferRequest')), 'application/octet-stream': BINARY } },
    answer: INFER_ANSWER,
    answerHeaders: JOB_STATE,
    otherAnswers: { 202: { description: 'the job; its address is in the Location header', content: JOB } },
  }),
  {
    method: 'get',
    path: '/jobs',
    id: 'listJobs',
    tag: 'Jobs',
    summary: 'Jobs that are open or kept, newest first',
    headers: [
      query('model', 'only those of this model', { type: 'string', minLength: 1, maxLength: 255 }),
      query('state', 'only those in this state', { type: 'string', enum: [...JOB_STATES] }),
      query('limit', 'of a page; 100 unless given', { type: 'integer', minimum: 1, maximum: 1000 }),
      query('cursor', 'of the page before', { type: 'string', pattern: '^j[0-9a-z]{9}[A-Za-z0-9_-]{16}$' }),
    ],
    answer: json(ref('JobList')),
  },
  {
    method: 'get',
    path: '/jobs/{id}',
    id: 'getJob',
    tag: 'Jobs',
    summary: 'A job as it is, or as it ends',
    headers: [WAIT],
    answer: JOB,
  },
  {
    method: 'delete',
    path: '/jobs/{id}',
    id: 'cancelJob',
    tag: 'Jobs',
    summary: 'Cancel a job',
    answer: JOB,
  },
  {
    method: 'get',
    path: '/jobs/{id}/result',
    id: 'jobResult',
    tag: 'Jobs',
    summary: 'The answer of a job, in the form of infer',
    description: 'The status and error of infer for one that failed, 410 for one that was cancelled.',
    headers: [WAIT],
    answer: INFER_ANSWER,
    answerHeaders: JOB_STATE,
    otherAnswers: PENDING,
  },
  {
    method: 'get',
    path: '/jobs/{id}/events',
    id: 'jobEvents',
    tag: 'Jobs',
    summary: 'What happens to a job, as server-sent events',
    answer: EVENTS,
  },
];

function query(name: string, description: string, schema: Json): Json {
  return { name, in: 'query', description, schema };
}
