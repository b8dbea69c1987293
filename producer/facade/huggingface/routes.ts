import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { HttpError } from '../../http/http-error.ts';
import { UnsupportedImageError } from '../../preprocess/image/sniff.ts';
import type { Preprocessor } from '../../preprocess/preprocessor.ts';
import { classifyFile, classifyImage, embedImage, topOf } from '../../tasks/classify.ts';
import { readTexts, type TextResult } from '../../tasks/read-texts.ts';
import { requireProfile } from '../../tasks/require-profile.ts';
import type { TaskCall } from '../../tasks/task-call.ts';
import { TaskTimings } from '../../tasks/task-timings.ts';
import { normalized, type Vector } from '../../tasks/vectors.ts';
import type { FacadeContext } from '../facade-context.ts';
import { decodeTaskRequest, type TaskParameters, type TaskRequest } from './codec.ts';

/** Room for a picture of the largest size in base64. */
const MAX_BODY_BYTES = 48 * 1024 * 1024;
/** Answers without `top_k`, where a model may have a thousand labels. */
const DEFAULT_TOP_K = 5;

interface ModelRoute {
  Params: { model: string; task?: string };
  Body: Buffer | undefined;
}

/** The Hugging Face Inference API for one model at a time: a photo, a text or a file in, labels or vectors out. */
export function registerHuggingFaceRoutes(
  app: FastifyInstance,
  context: FacadeContext,
  preprocessor: Preprocessor,
): void {
  const bodyLimit = Math.min(MAX_BODY_BYTES, app.initialConfig.bodyLimit ?? MAX_BODY_BYTES);
  const answer = (request: FastifyRequest<ModelRoute>, reply: FastifyReply) =>
    answerTask(request, reply, context, preprocessor);
  app.post<ModelRoute>('/models/:model', { bodyLimit }, answer);
  // Where clients that know the Hub by name go for vectors.
  app.post<ModelRoute>('/models/:model/pipeline/:task', { bodyLimit }, answer);
  app.get<ModelRoute>('/models/:model', async ({ params }) => {
    const model = context.catalog.resolve(params.model, '');
    const profile = await preprocessor.profile(model);
    return { id: model.name, pipeline_tag: profile?.task ?? null, version: model.version };
  });
}

async function answerTask(
  request: FastifyRequest<ModelRoute>,
  reply: FastifyReply,
  context: FacadeContext,
  preprocessor: Preprocessor,
): Promise<void> {
  assertPlainEncoding(request);
  const call = context.openCall(reply);
  const model = context.catalog.resolve(request.params.model, context.traffic.choose(request.params.model, call));
  const profile = await requireProfile(preprocessor, model);
  const { task } = request.params;
  if (task !== undefined && task !== profile.task) {
    throw new InferError('INVALID_ARGUMENT', `model "${model.name}" does ${profile.task}, not "${task}"`);
  }
  const contentType = request.headers['content-type'] ?? '';
  const decoded = decodeTaskRequest(profile.task, request.body ?? Buffer.alloc(0), contentType);
  const timings = new TaskTimings();
  const { infer } = context;
  const answer = await withMediaStatus(run({ preprocessor, infer, model, profile, call, timings }, decoded));
  reply.header('content-type', 'application/json');
  reply.header('server-timing', timings.toHeader(performance.now() - call.arrivalMs));
  context.sendBody(reply, Buffer.from(JSON.stringify(answer)));
}

async function run(task: TaskCall, request: TaskRequest): Promise<unknown> {
  const { parameters } = request;
  if (request.kind === 'texts') {
    const results = await readTexts(task, request.texts);
    return task.profile.task === 'text-classification'
      ? results.map(({ vectors }) => topOf(single(vectors), task, classifyOptions(parameters, Infinity)))
      : embeddings(results, request.single, parameters);
  }
  const options = classifyOptions(parameters, DEFAULT_TOP_K);
  switch (task.profile.task) {
    case 'file-type':
      return classifyFile(task, request.bytes, options);
    case 'image-feature-extraction':
      return toLists(await embedImage(task, request.bytes), parameters);
    default:
      return classifyImage(task, request.bytes, options);
  }
}

function classifyOptions({ topK, scores }: TaskParameters, defaultTopK: number) {
  return { topK: topK ?? defaultTopK, scores };
}

function embeddings(results: readonly TextResult[], single: boolean, parameters: TaskParameters): unknown {
  const lists = results.map(({ vectors }) => toLists(vectors, parameters));
  return single ? lists[0] : lists;
}

function toLists(vectors: TextResult['vectors'], { normalize }: TaskParameters): unknown {
  if (isVector(vectors)) return Array.from(normalize ? normalized(vectors) : vectors);
  return vectors.map((vector) => Array.from(normalize ? normalized(vector) : vector));
}

function single(vectors: TextResult['vectors']): Vector {
  if (isVector(vectors)) return vectors;
  throw new InferError('INVALID_ARGUMENT', 'the model gives scores per token, expected one row per text');
}

function isVector(vectors: TextResult['vectors']): vectors is Vector {
  return ArrayBuffer.isView(vectors);
}

/** What is no picture at all has a status of its own in HTTP. */
async function withMediaStatus<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw error instanceof UnsupportedImageError ? new HttpError(415, error.message) : error;
  }
}

function assertPlainEncoding({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() === 'identity') return;
  throw new HttpError(415, 'compressed bodies are not supported, send the body uncompressed');
}
