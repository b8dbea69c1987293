// Writes shared/proto/generated from the .proto files beside it. The result is committed, so that neither the build nor
// the tests need the generator.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const packages = ['@bufbuild/buf@1.75.0', '@bufbuild/protoc-gen-es@2.13.0'];

const args = ['--yes', ...packages.flatMap((name) => ['-p', name]), 'buf', 'generate'];
const npx = process.platform === 'win32' ? 'npx.cmd' : 'npx';
const { status, error } = spawnSync(npx, args, {
  cwd: root,
  stdio: 'inherit',
  shell: process.platform === 'win32',
});
if (error) console.error(`could not run npx: ${error.message}`);
process.exitCode = status ?? 1;
