import { move, transferableSymbol, valueSymbol } from 'piscina';
import { InferError } from '../../../shared/errors.ts';
import { configureSharp } from '../image/decode.ts';
import { prepareImage } from '../image/prepare-image.ts';
import { ResampleKernel } from '../image/resample-kernel.ts';
import { prepareTexts } from '../text/prepare-texts.ts';
import { TokenizerCache } from '../text/tokenizer-cache.ts';
import type { ThreadReply, ThreadTask } from './messages.ts';

type TaskOf<Kind> = Extract<ThreadTask, { kind: Kind }>;

/** The whole state of a preprocessing thread. */
const tokenizers = new TokenizerCache();
const kernel = new ResampleKernel();
configureSharp();

/** The entry that the pool calls in its threads. Never rejects. */
export default async function preprocess(task: ThreadTask): Promise<ThreadReply> {
  try {
    return transferring(task.kind === 'image' ? await image(task) : texts(task));
  } catch (error) {
    const { code, message } = InferError.from(error, 'preprocessing failed');
    const reason = error instanceof Error ? error.message : String(error);
    return { status: 'failed', code, message, reason };
  }
}

async function image({ bytes, pipeline, limits }: TaskOf<'image'>): Promise<ThreadReply> {
  return { status: 'image', tensor: await prepareImage(bytes, pipeline, limits, kernel) };
}

function texts(task: TaskOf<'texts'>): ThreadReply {
  const entry = tokenizers.get(task.model, task.generation, task.pipeline);
  if (!entry) return { status: 'unknown-tokenizer' };
  return { status: 'texts', ...prepareTexts(task.texts, entry.tokenizer, entry.pipeline) };
}

/** Gives the tensors' memory to the main thread instead of copying it. Each tensor here owns all of its memory. */
function transferring(reply: ThreadReply): ThreadReply {
  const tensors = reply.status === 'image' ? [reply.tensor] : reply.status === 'texts' ? reply.tensors : [];
  const buffers = tensors.map(({ data }) => data.buffer);
  const moved = move({ [transferableSymbol]: buffers, [valueSymbol]: reply });
  // Piscina posts what stands under `valueSymbol`, so that is what arrives.
  return moved as unknown as ThreadReply;
}
