import { availableParallelism } from 'node:os';
import { InferError } from '../../shared/errors.ts';
import type { Call } from '../../shared/infer/call.ts';
import type { ReadyModel } from '../../shared/model/ready-model.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import { type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import type { Tensor } from '../../shared/tensor/tensor.ts';
import { parseFilePipeline, type FilePipeline } from './bytes/file-pipeline.ts';
import { prepareFile, type PreparedFile } from './bytes/prepare-file.ts';
import { assertImageBytes, configureSharp, DEFAULT_IMAGE_LIMITS, type ImageLimits } from './image/decode.ts';
import { parseImagePipeline, type ImagePipeline } from './image/image-pipeline.ts';
import { sniffImage } from './image/sniff.ts';
import { ModelMemo } from './model-memo.ts';
import { readFile, readModelProfile, type ModelProfile } from './model-profile.ts';
import type { ThreadReply, ThreadTask } from './pool/messages.ts';
import { PreprocessPool } from './pool/preprocess-pool.ts';
import { createThreads } from './pool/threads.ts';
import { parseTextPipeline, type TextPipeline } from './text/text-pipeline.ts';
import type { PreparedTexts } from './text/prepare-texts.ts';

export interface PreprocessorOptions {
  /** Threads that decode, resize and tokenize. Default: one per processor, at most 2. */
  readonly threads?: number;
  /** Inputs that may wait for a thread; more are refused with RESOURCE_EXHAUSTED. Default 1024. */
  readonly maxWaiting?: number;
  /** Bytes of inputs that may wait for a thread. Default 256 MiB. */
  readonly maxWaitingBytes?: number;
  readonly imageLimits?: Partial<ImageLimits>;
  /** Longest text, in UTF-16 code units. Default 1 Mi. */
  readonly maxTextLength?: number;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

/** Turns photos, texts and files into tensors, as the files beside each model describe, off the event loop. */
export interface Preprocessor {
  /** What a model does; undefined when it can only be called with tensors. */
  profile(model: ReadyModel): Promise<ModelProfile | undefined>;
  /** One photo as one row. @throws UnsupportedImageError for what is no picture */
  image(model: ReadyModel, bytes: Uint8Array, call: Call): Promise<Tensor>;
  /** How many texts go into one request of the model. */
  textsPerRequest(model: ReadyModel): Promise<number>;
  /** At most `textsPerRequest` texts as one request. */
  texts(model: ReadyModel, texts: readonly string[], call: Call): Promise<PreparedTexts>;
  /** The features of one file, or the answer for a file that is too small for the model. */
  file(model: ReadyModel, bytes: Uint8Array): Promise<PreparedFile>;
  /** Lets what was begun end, then ends the threads. */
  close(): Promise<void>;
}

/** Photos of cameras and phones begin about here. */
const LARGE_TASK_BYTES = 1024 * 1024;

/** Threads start with the first model that needs them. sharp is loaded in this thread too: loaded in others alone, it would break when they end. */
export function createPreprocessor(options: PreprocessorOptions = {}): Preprocessor {
  const { logger = silentLogger } = options;
  configureSharp();
  const pool = new PreprocessPool(
    {
      maxWaiting: options.maxWaiting ?? 1024,
      maxWaitingBytes: options.maxWaitingBytes ?? 256 * 1024 * 1024,
      largeBytes: LARGE_TASK_BYTES,
    },
    createThreads(options.threads ?? Math.min(2, availableParallelism()), logger),
    options.clock ?? systemClock,
  );
  return new ThreadedPreprocessor(pool, {
    imageLimits: { ...DEFAULT_IMAGE_LIMITS, ...options.imageLimits },
    maxTextLength: options.maxTextLength ?? 1024 * 1024,
    logger,
  });
}

interface Limits {
  readonly imageLimits: ImageLimits;
  readonly maxTextLength: number;
  readonly logger: Logger;
}

class ThreadedPreprocessor implements Preprocessor {
  readonly #pool: PreprocessPool;
  readonly #limits: Limits;
  readonly #profiles = new ModelMemo(readModelProfile);
  readonly #imagePipelines = new ModelMemo(readImagePipeline);
  readonly #filePipelines = new ModelMemo(readFilePipeline);
  readonly #textPipelines = new ModelMemo(async (model) => ({
    pipeline: await readTextPipeline(model),
    generation: this.#generations++,
  }));
  #generations = 0;

  constructor(pool: PreprocessPool, limits: Limits) {
    this.#pool = pool;
    this.#limits = limits;
  }

  async profile(model: ReadyModel): Promise<ModelProfile | undefined> {
    const profile = await this.#profiles.get(model);
    // Photos and texts are about to come.
    if (profile !== undefined && profile.task !== 'file-type') this.#pool.start();
    return profile;
  }

  async image(model: ReadyModel, bytes: Uint8Array, call: Call): Promise<Tensor> {
    sniffImage(bytes);
    const { imageLimits: limits } = this.#limits;
    assertImageBytes(bytes, limits);
    const pipeline = await this.#imagePipelines.get(model);
    const task: ThreadTask = { kind: 'image', bytes, pipeline, limits };
    const reply = await this.#pool.run(task, bytes.byteLength, call);
    if (reply.status === 'image') return reply.tensor;
    throw this.#failure(reply);
  }

  async textsPerRequest(model: ReadyModel): Promise<number> {
    return (await this.#textPipelines.get(model)).pipeline.maxRows;
  }

  async texts(model: ReadyModel, texts: readonly string[], call: Call): Promise<PreparedTexts> {
    const { maxTextLength } = this.#limits;
    let byteLength = 0;
    for (const text of texts) {
      if (text.length > maxTextLength) {
        throw new InferError('INVALID_ARGUMENT', `a text has ${text.length} letters, at most ${maxTextLength} allowed`);
      }
      byteLength += text.length * 2;
    }
    const { pipeline, generation } = await this.#textPipelines.get(model);
    const task = { kind: 'texts', texts, model: `${model.name}/${model.version}`, generation } as const;
    let reply = await this.#pool.run(task, byteLength, call);
    if (reply.status === 'unknown-tokenizer') reply = await this.#pool.run({ ...task, pipeline }, byteLength, call);
    if (reply.status === 'texts') return reply;
    throw this.#failure(reply);
  }

  async file(model: ReadyModel, bytes: Uint8Array): Promise<PreparedFile> {
    // A look at 8 KB at most, which costs less than a hop to a thread.
    return prepareFile(bytes, await this.#filePipelines.get(model));
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  #failure(reply: ThreadReply): InferError {
    if (reply.status !== 'failed') return new InferError('INTERNAL', 'preprocessing failed');
    if (reply.code === 'INTERNAL') this.#limits.logger.error({ reason: reply.reason }, 'preprocessing failed');
    return new InferError(reply.code, reply.message);
  }
}

async function readImagePipeline(model: ReadyModel): Promise<ImagePipeline> {
  return parseImagePipeline(await requireFile(model, 'preprocessor_config.json'), model);
}

async function readFilePipeline(model: ReadyModel): Promise<FilePipeline> {
  return parseFilePipeline(await requireFile(model, 'magika_config.json'), model);
}

async function readTextPipeline(model: ReadyModel): Promise<TextPipeline> {
  const [tokenizer, tokenizerConfig = '', sentenceBertConfig = '', modelConfig = ''] = await Promise.all([
    requireFile(model, 'tokenizer.json'),
    readFile(model, 'tokenizer_config.json'),
    readFile(model, 'sentence_bert_config.json'),
    readFile(model, 'config.json'),
  ]);
  return parseTextPipeline({ tokenizer, tokenizerConfig, sentenceBertConfig, modelConfig }, model);
}

async function requireFile(model: ReadyModel, name: string): Promise<string> {
  const text = await readFile(model, name);
  if (text !== undefined) return text;
  throw new InferError('INVALID_ARGUMENT', `model "${model.name}" has no ${name}`);
}
