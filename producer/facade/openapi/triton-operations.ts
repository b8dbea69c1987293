import { BINARY, type Content, EMPTY, json, type Json, type Operation, ref } from './operation.ts';

export const HEADER_LENGTH: Json = {
  name: 'Inference-Header-Content-Length',
  in: 'header',
  description:
    'bytes of the JSON, when tensors follow it in binary; 0 for a body that is the only input itself; without it all is JSON',
  schema: { type: 'integer', minimum: 0 },
};

export const INFER_ANSWER: Content = { ...json(ref('InferResponse')), 'application/octet-stream': BINARY };

const EVENTS: Content = {
  'text/event-stream': { schema: { description: 'one event: data: and a JSON object, then an empty line' } },
};

/** The KServe v2 protocol: health, metadata, inference, as Triton has them. */
export const TRITON_OPERATIONS: readonly Operation[] = [
  {
    method: 'get',
    path: '/v2/health/live',
    id: 'serverLive',
    tag: 'Health',
    summary: 'Whether the server is there',
    answer: EMPTY,
  },
  {
    method: 'get',
    path: '/v2/health/ready',
    id: 'serverReady',
    tag: 'Health',
    summary: 'Whether every model can be called',
    answer: EMPTY,
    otherAnswers: { 400: { description: 'not ready' } },
  },
  {
    method: 'get',
    path: '/v2',
    id: 'serverMetadata',
    tag: 'Metadata',
    summary: 'The server',
    answer: json(ref('ServerMetadata')),
  },
  ...ofModel({
    method: 'get',
    path: '',
    id: 'modelMetadata',
    tag: 'Metadata',
    summary: 'A model, its inputs and outputs',
    answer: json(ref('ModelMetadata')),
  }),
  ...ofModel({
    method: 'get',
    path: '/config',
    id: 'modelConfig',
    tag: 'Metadata',
    summary: 'The configuration of a model',
    answer: json(ref('ModelConfig')),
  }),
  ...ofModel({
    method: 'get',
    path: '/ready',
    id: 'modelReady',
    tag: 'Health',
    summary: 'Whether a model can be called',
    answer: EMPTY,
  }),
  ...ofModel({
    method: 'post',
    path: '/infer',
    id: 'modelInfer',
    tag: 'Inference',
    summary: 'Run a model on tensors',
    description: 'Tensors travel as JSON, or in binary behind the JSON.',
    headers: [HEADER_LENGTH],
    body: { required: true, content: { ...json(ref('InferRequest')), 'application/octet-stream': BINARY } },
    answer: INFER_ANSWER,
  }),
  ...ofModel({
    method: 'post',
    path: '/generate',
    id: 'modelGenerate',
    tag: 'Inference',
    summary: 'Run a model on a flat object',
    body: { required: true, content: json(ref('GenerateRequest')) },
    answer: json(ref('GenerateResponse')),
  }),
  ...ofModel({
    method: 'post',
    path: '/generate_stream',
    id: 'modelGenerateStream',
    tag: 'Inference',
    summary: 'Run a model on a flat object, the answer as server-sent events',
    description: 'Errors of the run are events, too, with the status that they have elsewhere.',
    body: { required: true, content: json(ref('GenerateRequest')) },
    answer: EVENTS,
    otherAnswers: {
      '4XX': { description: 'what is wrong with the request', content: { ...json(ref('Error')), ...EVENTS } },
      '5XX': { description: 'what the server cannot do, or not now', content: { ...json(ref('Error')), ...EVENTS } },
    },
  }),
];

/** A call of a model, and the same of one version. */
export function ofModel(operation: Operation): Operation[] {
  return [
    { ...operation, path: `/v2/models/{model}${operation.path}` },
    {
      ...operation,
      path: `/v2/models/{model}/versions/{version}${operation.path}`,
      id: `${operation.id}OfVersion`,
      summary: `${operation.summary}, one version`,
    },
  ];
}
