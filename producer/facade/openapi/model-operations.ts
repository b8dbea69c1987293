import type { ReadyModel, TensorSpec } from '../../../shared/model/ready-model.ts';
import type { Datatype } from '../../../shared/tensor/datatype.ts';
import type { ModelTask } from '../../preprocess/model-profile.ts';
import { EXAMPLE_FILE, EXAMPLE_PICTURE, EXAMPLE_TEXT, exampleBodies } from './example-body.ts';
import { INFER_ANSWER } from './triton-operations.ts';
import { BINARY, type Content, json, type Json, type JsonMap, type Operation, ref } from './operation.ts';

/** A model that can be called now. */
export interface ListedModel {
  readonly model: ReadyModel;
  /** undefined for a model that takes tensors only. */
  readonly task: ModelTask | undefined;
}

export function modelTag({ model }: ListedModel): string {
  return `Model ${model.name}`;
}

/** What a reader wants to know of a model before calling it. */
export function describeModel({ model, task }: ListedModel): string {
  const { version, platform, maxBatchSize, inputs, outputs } = model;
  const rows = maxBatchSize > 0 ? `at most ${maxBatchSize} rows a request` : 'no batch dimension';
  return [
    `${task === undefined ? 'Takes tensors' : `Does ${task}`}, version ${version}, ${platform}, ${rows}.`,
    `Inputs: ${describeTensors(inputs)}. Outputs: ${describeTensors(outputs)}.`,
  ].join(' ');
}

function describeTensors(specs: readonly TensorSpec[]): string {
  const texts = specs.map(({ name, datatype, shape, optional }) => {
    return `\`${name}\` ${datatype} [${shape.join(',')}]${optional ? ' (optional)' : ''}`;
  });
  return texts.join(', ');
}

/** The calls of one model, each with a body that can be sent as it is. */
export function modelOperations(listed: ListedModel): Operation[] {
  const { model, task } = listed;
  const tag = modelTag(listed);
  const path = encodeURIComponent(model.name);
  const examples = exampleBodies(model);
  const operations: Operation[] = [];
  if (task !== undefined) {
    operations.push({
      method: 'post',
      path: `/models/${path}`,
      id: `runTask_${path}`,
      tag,
      summary: SUMMARIES[task],
      // An empty file is a file.
      body: { required: task !== 'file-type', content: taskContent(task) },
      answer: json(ref('TaskAnswer')),
    });
  }
  operations.push({
    method: 'post',
    path: `/v2/models/${path}/infer`,
    id: `infer_${path}`,
    tag,
    summary: 'Tensors in, tensors out',
    description: examples ? '' : 'The inputs are too large for an example here; send them in binary behind the JSON.',
    body: {
      required: true,
      content: json(ref('InferRequest'), examples ? { example: examples.infer } : {}),
    },
    answer: INFER_ANSWER,
  });
  if (examples) {
    operations.push({
      method: 'post',
      path: `/v2/models/${path}/generate`,
      id: `generate_${path}`,
      tag,
      summary: 'A flat object in, a flat object out',
      body: { required: true, content: json(generateSchema(model), { example: examples.generate }) },
      answer: json(ref('GenerateResponse')),
    });
  }
  return operations;
}

const SUMMARIES: Readonly<Record<ModelTask, string>> = {
  'image-classification': 'What is on a photo',
  'image-feature-extraction': 'The vector of a photo',
  'feature-extraction': 'The vector of a text',
  'text-classification': 'Labels of a text',
  'file-type': 'What kind of file the body is',
};

function taskContent(task: ModelTask): Content {
  switch (task) {
    case 'file-type':
      return {
        'text/plain': { schema: { type: 'string' }, example: EXAMPLE_FILE },
        'application/octet-stream': BINARY,
      };
    case 'feature-extraction':
    case 'text-classification':
      return json(ref('TaskRequest'), { example: { inputs: EXAMPLE_TEXT } });
    default:
      return {
        ...json(ref('TaskRequest'), { example: { inputs: EXAMPLE_PICTURE } }),
        'application/octet-stream': BINARY,
        'image/jpeg': BINARY,
        'image/png': BINARY,
      };
  }
}

/** A body for OpenAI's embeddings; undefined for a model that gives none. */
export function embeddingsExample({ model, task }: ListedModel): Json | undefined {
  return task === 'feature-extraction' ? { model: model.name, input: EXAMPLE_TEXT } : undefined;
}

/** Which keys are inputs, and what they hold. */
function generateSchema({ inputs }: ReadyModel): JsonMap {
  const properties = inputs.map((spec): [string, Json] => {
    const element = elementSchema(spec.datatype);
    const items = { type: 'array', items: element, description: `flat, for shape [${spec.shape.join(',')}]` };
    return [spec.name, { anyOf: [element, items] }];
  });
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    required: inputs.filter(({ optional }) => !optional).map(({ name }) => name),
    additionalProperties: { type: ['string', 'number', 'boolean'] },
  };
}

function elementSchema(datatype: Datatype): JsonMap {
  switch (datatype) {
    case 'BOOL':
      return { type: 'boolean' };
    case 'BYTES':
      return { type: 'string' };
    case 'FP16':
    case 'BF16':
    case 'FP32':
    case 'FP64':
      return { anyOf: [{ type: 'number' }, { enum: ['NaN', 'Infinity', '-Infinity'] }] };
    default:
      return { type: 'integer' };
  }
}
