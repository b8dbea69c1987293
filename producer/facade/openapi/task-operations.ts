import { BINARY, type Body, json, type Json, type Operation, ref } from './operation.ts';

/** Not required, as an empty file is a file, too. */
const TASK_BODY: Body = {
  required: false,
  content: {
    ...json(ref('TaskRequest')),
    'application/octet-stream': BINARY,
    'text/plain': { schema: { type: 'string' } },
  },
};

/**
 * The forms of Hugging Face and OpenAI.
 * @param embeddings example bodies by the name of their model
 */
export function taskOperations(embeddings: Readonly<Record<string, Json>>): Operation[] {
  return [
    {
      method: 'post',
      path: '/models/{model}',
      id: 'runTask',
      tag: 'Hugging Face',
      summary: 'A photo, a text or a file in, labels or vectors out',
      description: 'A photo or a file is the body itself; texts come as JSON or as they are.',
      body: TASK_BODY,
      answer: json(ref('TaskAnswer')),
    },
    {
      method: 'post',
      path: '/models/{model}/pipeline/{task}',
      id: 'runNamedTask',
      tag: 'Hugging Face',
      summary: 'The same, refused when the model does another task',
      body: TASK_BODY,
      answer: json(ref('TaskAnswer')),
    },
    {
      method: 'get',
      path: '/models/{model}',
      id: 'taskOfModel',
      tag: 'Hugging Face',
      summary: 'What a model does',
      answer: json(ref('TaskModel')),
    },
    {
      method: 'post',
      path: '/v1/embeddings',
      id: 'createEmbeddings',
      tag: 'OpenAI',
      summary: 'Vectors of texts',
      body: { required: true, content: json(ref('EmbeddingsRequest'), embeddings) },
      answer: json(ref('Embeddings')),
      error: 'OpenAiError',
    },
    {
      method: 'get',
      path: '/v1/models',
      id: 'listModels',
      tag: 'OpenAI',
      summary: 'The models that give vectors of texts',
      answer: json(ref('OpenAiModels')),
      error: 'OpenAiError',
    },
    {
      method: 'get',
      path: '/v1/models/{model}',
      id: 'retrieveModel',
      tag: 'OpenAI',
      summary: 'One of them',
      answer: json(ref('OpenAiModel')),
      error: 'OpenAiError',
    },
  ];
}
