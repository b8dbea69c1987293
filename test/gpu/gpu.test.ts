import { cpSync, truncateSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { identity } from '../fixtures/graphs.ts';
import { type GpuRuntime, gpuRuntime, SKIP_GPU } from '../support/gpu-runtime.ts';
import { type OnnxModel, writeModel } from '../support/onnx/model.ts';
import { type MillraceProcess, runMillrace, startMillrace } from '../support/process.ts';
import { convolutionModel, matrixModel } from '../../worker/engine/backend/onnx/gpu/probe-model.ts';

const ON_GPU = 'instance_group { kind: KIND_GPU }';

/** Two requests that come at once share a run. */
const TOGETHER = 'max_batch_size: 2 dynamic_batching { max_queue_delay_microseconds: 2000000 }';

/** Unique has no CUDA kernel. */
const MIXED: OnnxModel = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: [-1] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: [-1] }],
  nodes: [
    { op: 'Add', inputs: ['x', 'x'], outputs: ['h'] },
    { op: 'Unique', inputs: ['h'], outputs: ['u'] },
    { op: 'Add', inputs: ['u', 'u'], outputs: ['y'] },
  ],
};

describe.skipIf(SKIP_GPU)('GPUs, on a pretend CUDA runtime', () => {
  let runtime: GpuRuntime;
  let root = '';
  let server: MillraceProcess | undefined;

  beforeAll(async () => {
    runtime = await gpuRuntime();
    root = await mkdtemp(join(tmpdir(), 'millrace-gpu-'));
  }, 400_000);
  afterEach(async () => {
    await server?.stop();
    server = undefined;
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  let count = 0;
  const serve = async (
    models: Readonly<Record<string, readonly [model: OnnxModel | Buffer, config: string]>>,
    env: Readonly<Record<string, string>> = {},
    args: readonly string[] = [],
  ): Promise<Readonly<Record<string, { state: string; reason?: string }>>> => {
    const repository = join(root, String((count += 1)));
    for (const [name, [model, config]] of Object.entries(models)) {
      const file = join(repository, name, '1', 'model.onnx');
      writeModel(file, identity('FP32'));
      if (Buffer.isBuffer(model)) writeFileSync(file, model);
      else writeModel(file, model);
      writeFileSync(join(repository, name, 'config.pbtxt'), config);
    }
    const options = [`--model-repository=${repository}`, `--gpu-dir=${runtime.folder}`, '--exit-on-error=false'];
    server = await startMillrace(['serve', ...options, ...args], { env: { LD_LIBRARY_PATH: runtime.fake, ...env } });
    const response = await fetch(`${server.url}/v2/repository/index`, { method: 'POST' });
    const rows = (await response.json()) as { name: string; state: string; reason?: string }[];
    return Object.fromEntries(rows.map(({ name, ...row }) => [name, row]));
  };
  const infer = (model: string, shape: number[], value = 1): Promise<Response> => {
    const data = new Array<number>(shape.reduce((product, dim) => product * dim, 1)).fill(value);
    const inputs = [{ name: 'x', datatype: 'FP32', shape, data }];
    return fetch(`${server?.url ?? ''}/v2/models/${model}/infer`, { method: 'POST', body: JSON.stringify({ inputs }) });
  };
  const metrics = async (): Promise<string> => (await fetch(server?.metricsUrl ?? '')).text();
  const model = async (path: string): Promise<unknown> =>
    (await fetch(`${server?.url ?? ''}/v2/models/${path}`)).json();
  const config = (name: string): Promise<unknown> => model(`${name}/config`);

  describe('serve', () => {
    it('runs a model on each GPU, with what Triton writes into its config', async () => {
      const options = 'parameters { key: "cudnn_conv_algo_search" value { string_value: "1" } }';
      const group = 'instance_group { kind: KIND_GPU count: 2 }';
      const states = await serve({ echo: [identity('FP32'), `${group} ${options}`] }, { FAKE_N: '2' });
      expect(states).toEqual({ echo: { state: 'READY', version: '1' } });
      expect(await config('echo')).toMatchObject({ instance_group: [{ kind: 'KIND_GPU', count: 2, gpus: [0, 1] }] });
      for (let index = 0; index < 8; index += 1) {
        const response = await infer('echo', [2, 2], index);
        expect(await response.json()).toMatchObject({ outputs: [{ data: [index, index, index, index] }] });
      }
      expect(server?.stderr()).not.toContain('runs on the CPU');
    });

    it('puts a model without a wish on the GPU, and one that wants the CPU on the CPU', async () => {
      const few = 'max_batch_size: 4 parameters { key: "batch_sizes" value { string_value: "powers" } }';
      const states = await serve({
        auto: [identity('FP32'), few],
        cpu: [identity('FP32'), 'instance_group { kind: KIND_CPU }'],
      });
      expect(await config('auto')).toMatchObject({ instance_group: [{ kind: 'KIND_GPU', count: 1, gpus: [0] }] });
      expect(states['auto']).toMatchObject({ state: 'READY', reason: 'KIND_AUTO took gpu:0' });
      expect(states['cpu']).not.toHaveProperty('reason');
      expect(await model('auto')).toMatchObject({ parameters: { devices: 'gpu:0' } });
      expect(await model('cpu')).not.toHaveProperty('parameters');
      expect(server?.stderr()).toMatch(/model runs on GPUs/);
      expect(server?.stderr()).toMatch(/"usedBytes":\d+,"freeBytes":\d+,"maxRows":4/);
      expect(await config('cpu')).toMatchObject({ instance_group: [{ kind: 'KIND_CPU', count: 2, gpus: [] }] });
      for (const name of ['auto', 'cpu']) expect((await infer(name, [3, 2])).status).toBe(200);
      const { model_stats: stats } = (await model('auto/stats')) as { model_stats: { batch_stats: unknown[] }[] };
      expect(stats[0]?.batch_stats).toMatchObject([{ batch_size: 4 }]); // of 3 rows
    });

    it('names the nodes that run on the CPU, and refuses them where the model wants the GPU only', async () => {
      const only = 'parameters { key: "gpu_only" value { string_value: "1" } }';
      const states = await serve({ mixed: [MIXED, ON_GPU], only: [MIXED, `${ON_GPU} ${only}`] });
      expect(states['mixed']).toMatchObject({ state: 'READY', reason: '1 of 3 nodes run on the CPU: Unique' });
      const reason = 'gpu_only is set, and 1 of 3 nodes run on the CPU: Unique';
      expect(states['only']).toMatchObject({ state: 'UNAVAILABLE', reason });
      expect(server?.stderr()).toContain('1 of 3 nodes run on the CPU: Unique');
    });

    it('says which GPU does not exist, and which library a convolution lacks', async () => {
      const tensorRt = 'execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } }';
      const states = await serve({
        tensorrt: [identity('FP32'), `${ON_GPU} optimization { ${tensorRt} }`],
        far: [identity('FP32'), 'instance_group { kind: KIND_GPU gpus: [ 0, 7 ] }'],
        conv: [convolutionModel(1, 4, 8), ON_GPU],
        graph: [identity('FP32'), `${ON_GPU} parameters { key: "enable_cuda_graph" value { string_value: "1" } }`],
      });
      expect(states['far']?.reason).toContain('gpus [ 0, 7 ]: GPU 7 does not exist or not work; working is 0');
      expect(states['conv']?.reason).toContain('Conv: libcudnn.so.9 not found: package nvidia-cudnn-cu13');
      const missing = 'accelerator "tensorrt": TensorRT: libonnxruntime_providers_tensorrt.so not found: copy it from';
      expect(states['tensorrt']?.reason).toContain(missing);
      expect(states['graph']?.reason).toContain('"enable_cuda_graph" is not supported');
    });

    it.each([
      ['no device', { FAKE_N: '0' }, 'driver present, no GPU visible'],
      ['no library', { LD_LIBRARY_PATH: '' }, 'libcublasLt.so.13 not found: package nvidia-cublas'],
    ])('with %s takes the CPU aloud, and refuses what is meant for a GPU', async (_, env, reason) => {
      const states = await serve({ auto: [identity('FP32'), ''], gpu: [identity('FP32'), ON_GPU] }, env);
      expect(states['auto']?.state).toBe('READY');
      expect(states['auto']?.reason).toContain(`the model runs on the CPU, as no GPU works: ${reason}`);
      expect(states['gpu']?.state).toBe('UNAVAILABLE');
      expect(states['gpu']?.reason).toContain(`kind: KIND_GPU is not supported: ${reason}`);
      expect(server?.stderr()).toContain(reason);
      expect((await infer('auto', [1, 2], 3)).status).toBe(200);
    });

    it('refuses what does not fit with what it needs, what is free and how many fit', async () => {
      const two = 'instance_group { kind: KIND_GPU count: 2 }';
      const states = await serve(
        { big: [matrixModel(1, 2048), ON_GPU], twice: [matrixModel(1, 1536), two] },
        { FAKE_MEM_MB: '12' },
      );
      const needed = 'the weights of the model take 16.8 MB, and 12.6 MB are free: no instance fits';
      expect(states['big']?.reason).toContain(`GPU 0 has no room for the model: ${needed}`);
      const both = /take 9\.4 MB, 2 instances of it take 18\.9 MB, and 12\.\d MB are free: 1 instance fits/;
      expect(states['twice']?.reason).toMatch(both);
    });

    it('says that the weights do not fit the limit of the arena', async () => {
      const limit = 'parameters { key: "gpu_mem_limit" value { string_value: "1000000" } }';
      const states = await serve({ big: [matrixModel(1, 1024), `${ON_GPU} ${limit}`] });
      expect(states['big']?.reason).toContain('GPU 0 cannot be used by the weights of the model: GPU memory exhausted');
    });

    it('answers what does not fit with 429, runs apart what does not fit together, and does not put it together again', async () => {
      const exact = 'parameters { key: "arena_extend_strategy" value { string_value: "1" } }';
      await serve({ echo: [identity('FP32'), `${ON_GPU} ${TOGETHER} ${exact}`] }, { FAKE_MEM_MB: '4' });
      const tooMuch = await infer('echo', [1, 1_500_000]);
      expect(await tooMuch.json()).toMatchObject({ error: expect.stringContaining('GPU memory exhausted') as string });
      expect(tooMuch.status).toBe(429);
      for (let round = 0; round < 2; round += 1) {
        // Its input fits, and then there is nothing left for its output.
        expect((await infer('echo', [1, 600_000])).status).toBe(429);
        // Each of these fits, the two of them in one run do not.
        const both = await Promise.all([infer('echo', [1, 300_000], 1), infer('echo', [1, 300_000], 2)]);
        expect(both.map(({ status }) => status)).toEqual([200, 200]);
      }
      expect(server?.stderr().match(/a run found no memory, runs of its shape are smaller for now/g)).toHaveLength(1);
      expect(await metrics()).toContain('\nmillrace_batch_memory_rows{model="echo",version="1"} 1\n');
    });

    it('has an answer or an honest refusal for each of 100 clients whose inputs do not fit together', async () => {
      const batches = 'max_batch_size: 32 dynamic_batching { max_queue_delay_microseconds: 1000000 }';
      await serve({ echo: [identity('FP32'), `${ON_GPU} ${batches}`] }, { FAKE_MEM_MB: '8' });
      const all = await Promise.all(Array.from({ length: 100 }, (_, client) => infer('echo', [1, 30_000], client)));
      const statuses = all.map(({ status }) => status);
      expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
      expect(statuses).toContain(200);
      expect(server?.stderr()).toContain('"rows":32,"maxRows":16');
      expect((await infer('echo', [1, 30_000])).status).toBe(200);
    });

    it('serves through the package binding, which refuses by name what it cannot pass', async () => {
      const limit = 'parameters { key: "gpu_mem_limit" value { string_value: "1000000" } }';
      const models = { echo: [identity('FP32'), ON_GPU], limited: [identity('FP32'), `${ON_GPU} ${limit}`] } as const;
      const states = await serve(models, {}, ['--onnxruntime-api=binding']);
      expect(states['echo']).toEqual({ state: 'READY', version: '1' });
      expect(states['limited']?.reason).toContain('binding does not support parameter "gpu_mem_limit"');
      expect(await (await infer('echo', [1, 2], 5)).json()).toMatchObject({ outputs: [{ data: [5, 5] }] });
    });

    it('leaves a machine without GPU support as it was', async () => {
      const states = await serve({ auto: [identity('FP32'), ''] }, { MILLRACE_GPU_DIR: 'off' }, ['--gpu-dir=off']);
      expect(states).toEqual({ auto: { state: 'READY', version: '1' } });
      expect(await config('auto')).toMatchObject({ instance_group: [{ kind: 'KIND_CPU' }] });
      expect(await readFile(`/proc/${server!.pid}/maps`, 'utf8')).not.toContain('providers_cuda');
    });
  });

  describe('gpu check', () => {
    const check = async (env: Readonly<Record<string, string>>, folder = runtime.folder) => {
      const { code, stdout } = await runMillrace(['gpu', 'check', '--json', `--dir=${folder}`], { env });
      const { steps } = JSON.parse(stdout) as { steps: { step: string; ok: boolean; text: string; repair: string }[] };
      return { code, steps, last: steps.at(-1) };
    };

    it('goes as far as the pretend runtime does, and says what is missing then', async () => {
      const { code, steps, last } = await check({ LD_LIBRARY_PATH: runtime.fake });
      expect(code).toBe(1);
      const passed = steps.filter(({ ok }) => ok).map(({ step }) => step);
      expect(passed).toEqual(['files', 'driver', ...new Array<string>(4).fill('library'), 'device', 'session']);
      const text = 'libcudnn.so.9 not found: package nvidia-cudnn-cu13';
      expect(last).toEqual({ step: 'cuDNN', ok: false, text, repair: 'run millrace gpu install' });
    });

    it.each([
      [{ FAKE_N: '0' }, 'device', 'driver present, no GPU visible'],
      [{ LD_LIBRARY_PATH: '' }, 'driver', 'no NVIDIA driver visible (libcuda.so.1 not found)'],
    ])('stops with %j at the step %s', async (env, step, text) => {
      expect((await check({ LD_LIBRARY_PATH: runtime.fake, ...env })).last).toMatchObject({ step, ok: false, text });
    });

    it('finds a file that was cut short, and a server then leaves it alone', async () => {
      const folder = await copyOfFolder('cut');
      truncateSync(join(folder, 'site/onnxruntime/capi/libonnxruntime_providers_shared.so'), 4096);
      const { last } = await check({ LD_LIBRARY_PATH: runtime.fake }, folder);
      expect(last).toMatchObject({ step: 'files', ok: false, repair: 'millrace gpu install' });
      expect(last?.text).toContain('libonnxruntime_providers_shared.so is damaged or cut short');
      const states = await serve({ auto: [identity('FP32'), ''] }, {}, [`--gpu-dir=${folder}`]);
      expect(states['auto']?.reason).toContain('libonnxruntime_providers_shared.so is damaged or cut short');
    });

    it('finds a file of the right size with other bytes', async () => {
      const folder = await copyOfFolder('other');
      const file = join(folder, 'site/onnxruntime/capi/libonnxruntime_providers_shared.so');
      const bytes = await readFile(file);
      bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
      writeFileSync(file, bytes);
      expect((await check({}, folder)).last?.text).toMatch(/providers_shared\.so is damaged$/);
    });

    it('says of an empty folder how to fill it', async () => {
      const { code, last } = await check({}, join(root, 'nothing'));
      expect(code).toBe(1);
      expect(last).toMatchObject({ step: 'files', ok: false, repair: 'millrace gpu install' });
    });

    /** The large library by a link, the small one and the manifest as copies. */
    const copyOfFolder = async (name: string): Promise<string> => {
      const folder = join(root, name);
      const capi = 'site/onnxruntime/capi';
      await mkdir(join(folder, capi), { recursive: true });
      cpSync(join(runtime.folder, 'manifest.json'), join(folder, 'manifest.json'));
      cpSync(join(runtime.folder, 'ort'), join(folder, 'ort'), { recursive: true, verbatimSymlinks: true });
      cpSync(join(runtime.folder, capi, SHARED), join(folder, capi, SHARED));
      await symlink(join(runtime.folder, capi, CUDA), join(folder, capi, CUDA));
      return folder;
    };
    const SHARED = 'libonnxruntime_providers_shared.so';
    const CUDA = 'libonnxruntime_providers_cuda.so';
  });

  describe('gpu install', () => {
    it('has written down what it brought', async () => {
      const manifest = JSON.parse(await readFile(join(runtime.folder, 'manifest.json'), 'utf8')) as { files: object };
      expect(manifest).toMatchObject({ version: '1.30.0', commit: expect.stringMatching(/^[0-9a-f]{9,}$/) as string });
      expect(Object.keys(manifest.files)).toHaveLength(2);
      if (runtime.installed !== '') expect(runtime.installed).toMatch(/onnxruntime-gpu==1\.30\.0 is here/);
    });

    it('shows sizes and fetches nothing with --dry-run', async () => {
      const folder = join(root, 'dry');
      const { code, stdout } = await runMillrace(['gpu', 'install', '--dry-run', `--dir=${folder}`]);
      expect(code).toBe(0);
      expect(stdout).toMatch(/nvidia-cublas +==13\.\* +about +444 MB/);
      await expect(readFile(join(folder, 'manifest.json'))).rejects.toThrow('ENOENT');
    });

    it('asks before it fetches, and refuses where nobody can be asked', async () => {
      const { code, stderr } = await runMillrace(['gpu', 'install', `--dir=${join(root, 'asked')}`]);
      expect(code).toBe(2);
      expect(stderr).toContain('--yes fetches it all');
    });

    it('names the wheels that a folder lacks', async () => {
      const args = ['gpu', 'install', '--yes', `--dir=${join(root, 'from')}`, `--from=${root}`];
      const { code, stderr } = await runMillrace(args);
      expect(code).toBe(1);
      expect(stderr).toContain('no wheel for linux x86_64 of onnxruntime-gpu==1.30.0, nvidia-cuda-runtime');
    });
  });
});
