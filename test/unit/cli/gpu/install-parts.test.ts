import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { explainEnd } from '../../../../cli/commands/gpu/check.ts';
import { buildCommit, identify } from '../../../../cli/commands/gpu/file-identity.ts';
import { sameCommit } from '../../../../cli/commands/gpu/install.ts';
import { neededRoomMb, packagesFor, pipCommand, planText, wheelFor } from '../../../../cli/commands/gpu/packages.ts';
import { newestWheel } from '../../../../cli/commands/gpu/pip.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-parts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const core = (name: string, commit: string, before = 10): string => {
  const path = join(folder, name);
  writeFileSync(path, `${'\0'.repeat(before)}Build Info: git-branch=x, git-commit-id=${commit}, build type=Release\0`);
  return path;
};

describe('the commit of a core', () => {
  it('is found wherever the text lies, over the border of two pieces too', async () => {
    for (const before of [0, 10, (1 << 20) - 30, (1 << 20) - 20, (1 << 20) - 12, 3 << 20]) {
      expect(await buildCommit(core('core', 'f2c39fe2f', before)), `after ${before} bytes`).toBe('f2c39fe2f');
    }
    expect(await buildCommit(core('plain', ''))).toBeUndefined();
  });

  it('has to be the same on both sides', async () => {
    const ours = core('ours', 'f2c39fe2f');
    expect(await sameCommit(ours, core('same', 'f2c39fe2f'), '1.30.0')).toBe('f2c39fe2f');
    await expect(sameCommit(ours, core('other', '6af1a932e'), '1.30.0')).rejects.toThrow(
      'onnxruntime-node 1.30.0 was built from f2c39fe2f, the CUDA provider from 6af1a932e: they do not go together',
    );
    await expect(sameCommit(ours, core('none', ''), '1.30.0')).rejects.toThrow('from another');
  });
});

it('identifies a file by size and hash', async () => {
  const path = join(folder, 'file');
  writeFileSync(path, 'abc');
  const whole = await identify(path);
  expect(whole).toEqual({ size: 3, sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad' });
  truncateSync(path, 2);
  expect(await identify(path)).not.toEqual(whole);
});

describe('the wheels in a folder', () => {
  const [provider, , cublas] = packagesFor('1.30.0', false);
  const wheel = (version: string) => `nvidia_cublas-${version}-py3-none-manylinux_2_27_x86_64.whl`;

  it('are chosen by their versions as numbers, and only where they fit', () => {
    expect(cublas?.name).toBe('nvidia-cublas');
    const files = [wheel('13.9.1'), wheel('13.10.0.20'), wheel('14.0'), 'nvidia_cublas-13.11-py3-none-win_amd64.whl'];
    expect(wheelFor(cublas!, files)).toBe(wheel('13.10.0.20'));
    expect(wheelFor(cublas!, [wheel('12.9')])).toBeUndefined();
    expect(wheelFor(cublas!, ['nvidia_cublas_cu12-13.1-py3-none-manylinux1_x86_64.whl'])).toBeUndefined();
    const named = (version: string) => `onnxruntime_gpu-${version}-cp312-cp312-manylinux_2_28_x86_64.whl`;
    expect(wheelFor(provider!, [named('1.31.0'), named('1.30.0')])).toBe(named('1.30.0'));
    expect(wheelFor(provider!, [named('1.30.01')])).toBeUndefined();
  });

  it('are the newest of what several calls have left', () => {
    expect(newestWheel([wheel('13.9.1'), wheel('13.10.0'), 'partial', 'x.txt'])).toBe(wheel('13.10.0'));
    expect(newestWheel(['partial'])).toBeUndefined();
  });
});

describe('the plan', () => {
  it('is the provider of the version of the core, with what it is linked with', () => {
    const names = packagesFor('1.30.0', false).map(({ name, versions }) => `${name}${versions}`);
    expect(names).toContain('onnxruntime-gpu==1.30.0');
    for (const name of ['cublas', 'curand', 'cuda-runtime', 'cudnn-cu13'])
      expect(names.join()).toContain(`nvidia-${name}`);
    expect(packagesFor('1.30.0', true)).toHaveLength(1);
  });

  it('shows where it goes and what it costs', () => {
    const text = planText(packagesFor('1.30.0', true), '/gpu', undefined);
    expect(text).toContain('GPU support for /gpu, with pip from its index');
    expect(text).toContain('in all about 247 MB to fetch and 272 MB to keep');
    expect(neededRoomMb(packagesFor('1.30.0', true), false)).toBe(247 + 272);
    expect(neededRoomMb(packagesFor('1.30.0', true), true)).toBe(272);
  });

  it('says how to fetch it elsewhere', () => {
    const command = pipCommand(packagesFor('1.30.0', false));
    expect(command).toContain("'onnxruntime-gpu==1.30.0' 'nvidia-cuda-runtime==13.*'");
    expect(command).toContain('--only-binary=:all:');
  });
});

describe('a check whose child was killed', () => {
  it.each([
    [null, 'SIGBUS', 'cut short'],
    [135, null, 'cut short'],
    [null, 'SIGSEGV', 'SIGSEGV'],
    [1, null, 'ended with 1'],
  ] as const)('with %s, %s', (code, signal, text) => {
    expect(explainEnd(code, signal).text).toContain(text);
  });
});
