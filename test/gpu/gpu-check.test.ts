import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GpuRuntime, gpuRuntime, SKIP_GPU } from '../support/gpu-runtime.ts';
import { ROOT } from '../support/process.ts';
import { run } from '../support/python.ts';

interface Found {
  readonly ok: boolean;
  readonly check: { readonly ok: boolean };
  readonly parts: Readonly<Record<string, { readonly error?: string; readonly skipped?: string }>>;
  readonly answers: Readonly<Record<string, unknown>>;
}

describe.skipIf(SKIP_GPU)('scripts/gpu-check, on a pretend CUDA runtime', () => {
  let runtime: GpuRuntime;
  let root = '';
  let packed = '';
  let tools = '';

  beforeAll(async () => {
    runtime = await gpuRuntime();
    root = await mkdtemp(join(tmpdir(), 'millrace-gpu-check-'));
    packed = join(root, 'packed');
    // What a machine without anything has: no Node, no Redis, no Python.
    tools = join(root, 'tools');
    await mkdir(tools);
    for (const name of ['bash', 'readlink', 'dirname']) {
      const { text } = await run('sh', ['-c', `command -v ${name}`]);
      await symlink(text.trim(), join(tools, name));
    }
    const args = [join(ROOT, 'scripts', 'gpu-check'), 'pack', packed, `--gpu-dir=${runtime.folder}`];
    const { code, text } = await run('bash', args, { timeoutMs: 200_000 });
    if (code !== 0) throw new Error(text);
  }, 600_000);
  afterAll(() => rm(root, { recursive: true, force: true }));

  const measure = async (env: Record<string, string>, only: string): Promise<{ found: Found; text: string }> => {
    const out = join(root, 'found.json');
    const variables = Object.entries({ HOME: root, ...env }).map(([name, value]) => `${name}=${value}`);
    const args = ['-i', `PATH=${tools}`, ...variables, 'bash', join(packed, 'scripts', 'gpu-check')];
    const { text } = await run('env', [...args, '--quick', `--only=${only}`, out], { timeoutMs: 150_000 });
    return { found: JSON.parse(readFileSync(out, 'utf8')) as Found, text };
  };

  it('measures in a packed folder, keeps what works beside what fails, and answers what it can', async () => {
    const { found, text } = await measure({ LD_LIBRARY_PATH: runtime.fake }, 'matrix,vision,memory');
    expect(Object.keys(found.parts)).toEqual(['matrix', 'vision', 'memory']);
    // Kernels of the pretend runtime compute nothing, and it has no cuDNN.
    expect(found.parts['matrix']).toMatchObject({
      loadMs: expect.any(Number) as number,
      batches: { 1: { agrees: false, gpuMs: expect.any(Number) as number }, 4: { agrees: false } },
      best: { rows: expect.any(Number) as number },
      twoInstances: { rowsPerSecond: expect.any(Number) as number },
      error: 'the answers of GPU and CPU differ at batches of 1, 4 rows',
    });
    expect(found.parts['vision']?.error).toContain('libcudnn.so.9 not found');
    expect(found.parts['memory']).toMatchObject({ killedInMidRun: { back: true } });
    expect(found.ok).toBe(false);
    expect(text).toContain('gpu-check: matrix failed: the answers of GPU and CPU differ');
    const answers = JSON.stringify(found.answers);
    expect(answers).toContain('0 of 2 batches agree with the CPU');
    expect(answers).toContain('"nvidia-smi in its loop":"not answered: it was not measured"');
  });

  it('says in one line that no GPU can be used, and measures nothing', async () => {
    const { found, text } = await measure({ LD_LIBRARY_PATH: runtime.fake, FAKE_N: '0' }, 'matrix,serve');
    const reason = 'driver present, no GPU visible';
    expect(text).toContain(`gpu-check: no GPU can be used: ${reason}`);
    expect(found.check.ok).toBe(false);
    expect(found.parts['serve']?.skipped).toContain(reason);
  });
});
