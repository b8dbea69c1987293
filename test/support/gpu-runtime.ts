import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packagedCore, problemOfFolder, readGpuFolder } from '../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import { ROOT } from './process.ts';
import { run } from './python.ts';

/** Set where pip, gcc or the network is missing. Nothing else skips these tests: without it they fail. */
export const SKIP_GPU = process.env['MILLRACE_SKIP_GPU_TESTS'] === '1';
if (SKIP_GPU) process.stderr.write('MILLRACE_SKIP_GPU_TESTS=1: nothing of GPUs is tested\n');

const CACHE = join(ROOT, '.cache', 'gpu');
const SOURCES = join(ROOT, '..', 'shared', 'gpu', 'fake-cuda');

/** What the pretend CUDA has to do beside: memory that is freed is there again, so what a failed run keeps shows. */
const ACCOUNTS: readonly (readonly [from: string, to: string])[] = [
  [
    '*p=aligned_alloc(256,(n+255)/256*256+256);used+=n;T("Malloc',
    'char*q=aligned_alloc(256,(n+255)/256*256+512);*(size_t*)q=n;*p=q+256;used+=n;T("Malloc',
  ],
  [
    'cudaFree(void*p){free(p);return 0;}',
    'cudaFree(void*p){if(p){char*q=(char*)p-256;used-=*(size_t*)q;free(q);}return 0;}',
  ],
  [
    'cudaFreeAsync(void*p,cudaStream_t s){free(p);return 0;}',
    'cudaFreeAsync(void*p,cudaStream_t s){return cudaFree(p);}',
  ],
];

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
  const fake = join(CACHE, 'fake-2'); // another number whenever what it does changes: it is kept over runs
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
  const sources = join(half, 'sources');
  await mkdir(half, { recursive: true });
  await cp(SOURCES, sources, { recursive: true });
  await rm(join(sources, 'fakecudart.c'));
  let runtime = await readFile(join(SOURCES, 'fakecudart.c'), 'utf8');
  for (const [from, to] of ACCOUNTS) {
    if (!runtime.includes(from)) throw new Error(`the pretend CUDA is another one: it has no ${from}`);
    runtime = runtime.replace(from, to);
  }
  await writeFile(join(sources, 'fakecudart.c'), runtime);
  const { code, text } = await run('bash', [join(sources, 'build.sh'), provider, half]);
  if (code !== 0) throw new Error(`the pretend CUDA could not be built; it needs gcc, nm and pip\n${text}`);
  await rm(target, { recursive: true, force: true });
  await rename(half, target);
}
