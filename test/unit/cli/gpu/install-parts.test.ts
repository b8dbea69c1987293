import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { explainEnd } from '../../../../cli/commands/gpu/check.ts';
import { buildCommit, identify } from '../../../../cli/commands/gpu/file-identity.ts';
import { sameCommit } from '../../../../cli/commands/gpu/install.ts';
import { packagesFor, planText } from '../../../../cli/commands/gpu/packages.ts';
import { parseReport } from '../../../../cli/commands/gpu/pip.ts';

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

describe('what pip chose', () => {
  it('is read from its report, after whatever it says in front', () => {
    const wheel = 'https://index.example/a/nvidia_cublas-13.1-py3-none-manylinux%2Bx_x86_64.whl#sha256=1';
    const item = {
      metadata: { name: 'nvidia-cublas', version: '13.1' },
      download_info: { url: wheel, archive_info: { hashes: { sha256: 'ab' } } },
    };
    expect(parseReport(`note\n${JSON.stringify({ install: [item] })}`)).toEqual([
      {
        name: 'nvidia-cublas',
        version: '13.1',
        fileName: 'nvidia_cublas-13.1-py3-none-manylinux+x_x86_64.whl',
        sha256: 'ab',
      },
    ]);
  });

  it('is refused when it is no report', () => {
    expect(() => parseReport('{}')).toThrow('without wheels');
    expect(() => parseReport('{"install":[{}]}')).toThrow('unknown report');
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
