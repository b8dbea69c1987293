import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { packagedCore, problemOfFolder, readGpuFolder } from '../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import { ROOT } from './process.ts';
import { run } from './python.ts';

/** Set where pip, gcc or the network is missing. Nothing else skips these tests: without it they fail. */
export const SKIP_GPU = process.env['MILLRACE_SKIP_GPU_TESTS'] === '1';
if (SKIP_GPU) process.stderr.write('MILLRACE_SKIP_GPU_TESTS=1: nothing of GPUs is tested\n');

const CACHE = join(ROOT, '.cache', 'gpu');
const BUILD = join(ROOT, '..', 'shared', 'gpu', 'fake-cuda', 'build.sh');

export interface GpuRuntime {
  /** The provider alone, as `millrace gpu install --provider-only` leaves it. */
  readonly folder: string;
  /** Libraries that pretend to be CUDA with one device: all calls work, kernels do nothing. */
  readonly fake: string;
  /** What the installer printed when it ran; '' when the folder was there. */
  readonly installed: string;
}

/** Installs the provider from the package index and builds the pretend CUDA, each once. @throws Error with what is missing */
export async function gpuRuntime(): Promise<GpuRuntime> {
  const folder = join(CACHE, packagedCore().version);
  const installed = await installProvider(folder);
  const fake = join(CACHE, 'fake');
  if (!existsSync(join(fake, 'run', 'libcuda.so.1'))) await buildFake(folder, fake);
  return { folder, fake: join(fake, 'run'), installed };
}

async function installProvider(folder: string): Promise<string> {
  const known = readGpuFolder(folder);
  if (known && !problemOfFolder(known)) return '';
  const args = ['gpu', 'install', '--provider-only', '--yes', `--dir=${folder}`];
  const { code, text } = await run(process.execPath, [join(ROOT, 'dist', 'cli', 'main.js'), ...args], {
    timeoutMs: 380_000,
  });
  if (code !== 0) throw new Error(`the provider could not be installed; tests of GPUs need pip and a network\n${text}`);
  return text;
}

async function buildFake(folder: string, target: string): Promise<void> {
  const provider = join(folder, 'site', 'onnxruntime', 'capi', 'libonnxruntime_providers_cuda.so');
  const half = `${target}-${process.pid}`;
  await mkdir(half, { recursive: true });
  const { code, text } = await run('bash', [BUILD, provider, half]);
  if (code !== 0) throw new Error(`the pretend CUDA could not be built; it needs gcc, nm and pip\n${text}`);
  await rm(target, { recursive: true, force: true });
  await rename(half, target);
}
