import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildCommit } from '../../cli/commands/gpu/file-identity.ts';
import { packagedCore } from '../../worker/engine/backend/onnx/gpu/gpu-folder.ts';
import { SKIP_GPU } from '../support/gpu-runtime.ts';
import { runMillrace } from '../support/process.ts';
import { run } from '../support/python.ts';

const CAPI = 'onnxruntime/capi';
const MAKE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as wheel:
    wheel.writestr('${CAPI}/libonnxruntime_providers_cuda.so', b'cuda' * 1000)
    wheel.writestr('${CAPI}/libonnxruntime_providers_shared.so', b'shared')
    wheel.writestr('${CAPI}/libonnxruntime.so.' + sys.argv[3], b'git-commit-id=' + sys.argv[2].encode() + b', ')
    wheel.writestr('${CAPI}/onnxruntime_pybind11_state.so', b'not wanted')
    wheel.writestr('onnxruntime/__init__.py', b'')
`;

describe.skipIf(SKIP_GPU)('gpu install --from', () => {
  const { path: core, version } = packagedCore();
  let root = '';
  let commit = '';

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'millrace-gpu-from-'));
    commit = (await buildCommit(core)) ?? '';
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  let count = 0;
  /** A wheel as the index has it, small, in a folder of its own. */
  const wheelOf = async (builtFrom: string, ofVersion = version): Promise<string> => {
    const folder = join(root, `wheels-${(count += 1)}`);
    await mkdir(folder);
    const wheel = join(folder, `onnxruntime_gpu-${ofVersion}-cp312-cp312-manylinux_2_28_x86_64.whl`);
    expect(await run('python3', ['-c', MAKE, wheel, builtFrom, ofVersion])).toEqual({ code: 0, text: '' });
    return wheel;
  };
  const install = (wheel: string, dir: string) => {
    const from = join(wheel, '..');
    return runMillrace(['gpu', 'install', '--provider-only', '--yes', `--from=${from}`, `--dir=${dir}`]);
  };

  it('installs without a network, writes down what it brought, and does nothing the second time', async () => {
    const dir = join(root, 'good');
    const wheel = await wheelOf(commit);
    const first = await install(wheel, dir);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toContain(`installed: 2 libraries for ONNX Runtime ${version} (commit ${commit})`);
    const manifest = JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8')) as { files: object };
    expect(manifest).toMatchObject({ version, commit, packages: [`onnxruntime-gpu==${version}`] });
    expect(Object.values(manifest.files)).toContainEqual({ size: 4000, sha256: expect.any(String) as string });
    expect(existsSync(join(dir, 'site', CAPI, 'onnxruntime_pybind11_state.so'))).toBe(false);
    expect((await install(wheel, dir)).stdout).toContain('all of it is installed already, and whole');
    writeFileSync(join(dir, 'site', CAPI, 'libonnxruntime_providers_shared.so'), 'sharXd');
    expect((await install(wheel, dir)).stdout).toContain('installed: 2 libraries');
  });

  it('refuses a provider of another build, and leaves nothing of it', async () => {
    const dir = join(root, 'other');
    const { code, stderr } = await install(await wheelOf('6af1a932e'), dir);
    expect(code).toBe(1);
    expect(stderr).toContain(`was built from ${commit}, the CUDA provider from 6af1a932e: they do not go together`);
    expect([existsSync(join(dir, 'site')), existsSync(join(dir, 'manifest.json'))]).toEqual([false, false]);
  });

  it('refuses a wheel that is cut short, and one of another version', async () => {
    const wheel = await wheelOf(commit);
    const bytes = readFileSync(wheel);
    writeFileSync(wheel, bytes.subarray(0, bytes.length >> 1));
    const short = await install(wheel, join(root, 'short'));
    expect(short.code).toBe(2);
    expect(short.stderr).toMatch(/onnxruntime_gpu-[\d.]+-cp312-cp312-manylinux_2_28_x86_64\.whl cannot be unpacked/);
    const other = await install(await wheelOf(commit, '1.2.3'), join(root, 'version'));
    expect(other.code).toBe(1);
    expect(other.stderr).toContain(`no wheel for linux x86_64 of onnxruntime-gpu==${version}`);
  });
});
