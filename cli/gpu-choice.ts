import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { InferError } from '../shared/errors.ts';

const SMI_MS = 20_000;
const MAX_GPUS = 64;
const ENTRY = /^(?:\d{1,3}|(?:GPU|MIG)-[\w/-]{1,80})$/;

/**
 * What `--gpus` names, each as CUDA_VISIBLE_DEVICES takes it; undefined for `off`.
 * @param command which lists them for `all`, where CUDA_VISIBLE_DEVICES does not
 * @throws InferError INVALID_ARGUMENT for anything else, UNAVAILABLE where nothing says which there are
 */
export async function chosenGpus(
  option: string | undefined,
  visible = process.env['CUDA_VISIBLE_DEVICES'],
  command = 'nvidia-smi',
): Promise<readonly string[] | undefined> {
  if (option === undefined || option === 'off') return undefined;
  const text = option === 'all' ? (visible ?? (await listGpus(command))) : option;
  const gpus = text.split(',').map((part) => part.trim());
  if (gpus.length <= MAX_GPUS && gpus.every((gpu) => ENTRY.test(gpu))) return gpus;
  const where = option === 'all' ? 'CUDA_VISIBLE_DEVICES, which --gpus=all takes,' : '--gpus';
  const expected = `numbers or uuids of up to ${MAX_GPUS} GPUs with "," between them, all or off`;
  throw new InferError('INVALID_ARGUMENT', `${where} expects ${expected}, got "${text.slice(0, 200)}"`);
}

async function listGpus(command: string): Promise<string> {
  const args = ['--query-gpu=uuid', '--format=csv,noheader'];
  try {
    const { stdout } = await promisify(execFile)(command, args, { timeout: SMI_MS, killSignal: 'SIGKILL' });
    return stdout.trim().split(/\s+/).join(',');
  } catch (cause) {
    const text = '--gpus=all asks nvidia-smi which GPUs there are, and it does not say; name them: --gpus=0,1';
    throw new InferError('UNAVAILABLE', text, { cause });
  }
}
