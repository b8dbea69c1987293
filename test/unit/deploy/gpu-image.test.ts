import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { Flag } from '../../../cli/flags/flag.ts';
import { GPU_COMMAND_FLAGS, GPU_FLAGS } from '../../../cli/flags/gpu-catalogue.ts';
import { parseOptions } from '../../../cli/flags/parse-flags.ts';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const dockerfile = read('deploy/gpu.Dockerfile');

it('the GPU image is made by the installer, and has its folder where the program looks', () => {
  const [, line = ''] = /^RUN node dist\/cli\/main\.js gpu install (.*)$/m.exec(dockerfile) ?? [];
  const flags: Record<string, Flag> = {};
  for (const key of GPU_COMMAND_FLAGS.install) flags[key] = GPU_FLAGS[key];
  const { values, positionals } = parseOptions('gpu install', flags, line.split(' '), {});
  expect(positionals).toEqual([]);
  expect(values).toMatchObject({ yes: true, dryRun: false, providerOnly: false, gpuDir: '/gpu' });
  expect(dockerfile).toContain('COPY --from=gpu /gpu /gpu');
  expect(dockerfile).toMatch(/MILLRACE_GPU_DIR=\/gpu /);
  expect(dockerfile).toMatch(/NVIDIA_DRIVER_CAPABILITIES=compute,utility$/m);
});

it('a GPU worker on Kubernetes has one card from the device plugin, which its process sees alone', () => {
  const [document] = parseAllDocuments(read('examples/kubernetes/worker-gpu.yaml'));
  // The shape is what the test is about.
  const manifest = document!.toJS() as {
    spec: { template: { spec: { containers: { args: string[]; resources: { limits: Record<string, unknown> } }[] } } };
  };
  const [container] = manifest.spec.template.spec.containers;
  expect(container!.resources.limits['nvidia.com/gpu']).toBe(1);
  expect(container!.args.join(' ')).not.toContain('--gpus');
});
