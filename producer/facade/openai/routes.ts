import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { ModelCatalog } from '../../../shared/infer/ports.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import { HttpError } from '../../http/http-error.ts';
import type { ModelProfile } from '../../preprocess/model-profile.ts';
import type { Preprocessor } from '../../preprocess/preprocessor.ts';
import { assertMayWake } from '../../service/tenants/assert-may-wake.ts';
import { readTexts, type TextResult } from '../../tasks/read-texts.ts';
import { requireProfile } from '../../tasks/require-profile.ts';
import { TaskTimings } from '../../tasks/task-timings.ts';
import type { FacadeContext } from '../facade-context.ts';
import { decodeEmbeddingsRequest, type EmbeddingsRequest } from './codec.ts';
import { ParameterError, sendOpenAiError } from './error-reply.ts';

const MAX_BODY_BYTES = 16 * 1024 * 1024;

interface ModelRoute {
  Params: { model: string };
}

type EmbeddingsRoute = FastifyRequest<{ Body: Buffer | undefined }>;

/** OpenAI's API as far as models here can serve it: embeddings, and the list of models that give them. Keys are not looked at. */
export function registerOpenAiRoutes(app: FastifyInstance, context: FacadeContext, preprocessor: Preprocessor): void {
  const bodyLimit = Math.min(MAX_BODY_BYTES, app.initialConfig.bodyLimit ?? MAX_BODY_BYTES);
  // A model's `created` is when this server began to know it, in seconds.
  const created = Math.floor(Date.now() / 1000);
  const describe = (id: string) => ({ id, object: 'model', created, owned_by: 'millrace' });
  const { catalog } = context;
  const embeds = (name: string) => givesEmbeddings(preprocessor, catalog, name);

  app.setErrorHandler((error, _request, reply) => sendOpenAiError(reply, error, context.logger));
  app.post<{ Body: Buffer | undefined }>('/v1/embeddings', { bodyLimit }, (request, reply) =>
    answerEmbeddings(request, reply, context, preprocessor),
  );
  app.get('/v1/models', async () => {
    const ready = catalog.list().filter(({ state }) => state === 'READY');
    const names = [...new Set(ready.map(({ name }) => name))];
    const wanted = await Promise.all(names.map(embeds));
    return { object: 'list', data: names.filter((_name, index) => wanted[index]).map(describe) };
  });
  app.get<ModelRoute>('/v1/models/:model', async ({ params }) => {
    const { name } = catalog.resolve(params.model, '');
    if (await embeds(name)) return describe(name);
    throw new InferError('NOT_FOUND', `model "${name}" gives no embeddings of texts; see /v2/models/${name}`);
  });
}

/** A model whose files cannot be read, or are wrong, is only left out here: asking it for embeddings says what is wrong. */
async function givesEmbeddings(preprocessor: Preprocessor, catalog: ModelCatalog, name: string): Promise<boolean> {
  try {
    const profile = await preprocessor.profile(catalog.resolve(name, ''));
    return profile?.task === 'feature-extraction';
  } catch {
    return false;
  }
}

async function answerEmbeddings(
  request: EmbeddingsRoute,
  reply: FastifyReply,
  context: FacadeContext,
  preprocessor: Preprocessor,
): Promise<void> {
  assertPlainEncoding(request);
  const call = context.openCall(reply);
  const wanted = decodeEmbeddingsRequest(request.body ?? Buffer.alloc(0));
  assertMayWake(context.tenants, call.tenant, wanted.model);
  await context.wake(wanted.model);
  const model = context.catalog.resolve(wanted.model, context.traffic.choose(wanted.model, call));
  const profile = await requireProfile(preprocessor, model);
  assertEmbeds(model, profile, wanted);
  const timings = new TaskTimings();
  const results = await readTexts({ preprocessor, infer: context.infer, model, profile, call, timings }, wanted.texts);
  const tokens = results.reduce((sum, result) => sum + result.tokens, 0);
  const answer = {
    object: 'list',
    data: results.map((result, index) => ({ object: 'embedding', index, embedding: encode(result, model, wanted) })),
    model: model.name,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
  reply.header('content-type', 'application/json');
  reply.header('server-timing', timings.toHeader(performance.now() - call.arrivalMs));
  context.sendBody(reply, Buffer.from(JSON.stringify(answer)));
}

function assertEmbeds(model: ReadyModel, profile: ModelProfile, { dimensions }: EmbeddingsRequest): void {
  if (profile.task !== 'feature-extraction') {
    throw new ParameterError('model', `model "${model.name}" does ${profile.task} and gives no embeddings of texts`);
  }
  const length = profile.output.shape.at(-1) ?? -1;
  if (dimensions === undefined || length === -1 || length === dimensions) return;
  throw new ParameterError('dimensions', `model "${model.name}" gives ${length} dimensions, not ${dimensions}`);
}

function encode({ vectors }: TextResult, model: ReadyModel, wanted: EmbeddingsRequest): string | number[] {
  if (!ArrayBuffer.isView(vectors)) {
    throw new InferError(
      'INVALID_ARGUMENT',
      `model "${model.name}" gives a vector per token; 1_Pooling/config.json beside it would say how they become one`,
    );
  }
  if (wanted.dimensions !== undefined && wanted.dimensions !== vectors.length) {
    throw new ParameterError(
      'dimensions',
      `model "${model.name}" gives ${vectors.length} dimensions, not ${wanted.dimensions}`,
    );
  }
  if (!wanted.base64) return Array.from(vectors);
  const floats = Float32Array.from(vectors);
  return Buffer.from(floats.buffer, floats.byteOffset, floats.byteLength).toString('base64');
}

function assertPlainEncoding({ headers }: EmbeddingsRoute): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() === 'identity') return;
  throw new HttpError(415, 'compressed bodies are not supported, send the body uncompressed');
}
