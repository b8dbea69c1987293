import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const SCRIPT = join(import.meta.dirname, '..', '..', '..', 'scripts', 'install.mjs');

let folder = '';
let clone = '';
let packages = '';

/** A clone with no packages but those that its link leads to. */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-install-'));
  clone = join(folder, 'clone');
  packages = join(folder, 'packages');
  mkdirSync(join(clone, 'scripts'), { recursive: true });
  mkdirSync(packages);
  cpSync(SCRIPT, join(clone, 'scripts', 'install.mjs'));
  writeFileSync(join(clone, 'package-lock.json'), '{}');
  writeFileSync(join(packages, '.package-lock.json'), '{}');
  symlinkSync(packages, join(clone, 'node_modules'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe('installing packages', () => {
  it('says of a link to outdated packages what it is, and leaves them alone', () => {
    utimesSync(join(packages, '.package-lock.json'), 1, 1);
    const { status, stderr } = install();
    expect(stderr).toMatch(/^millrace: node_modules is a link to a folder without the packages[^\n]*\n$/);
    expect(status).toBe(1);
    expect(readdirSync(packages)).toEqual(['.package-lock.json']);
  });

  it('takes what a link leads to where that is up to date', () => {
    utimesSync(join(clone, 'package-lock.json'), 1, 1);
    expect(install()).toMatchObject({ status: 0, stderr: '' });
  });
});

function install() {
  const script = pathToFileURL(join(clone, 'scripts', 'install.mjs')).href;
  const code = `import { installIfStale } from ${JSON.stringify(script)}; installIfStale();`;
  return spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' });
}
