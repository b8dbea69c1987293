// That nothing runs on the CPU in silence: a node without a kernel is named, refused with gpu_only, and no GPU is a failed load.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startMillrace } from './children.mjs';
import { temporary } from './sessions.mjs';

/** x + x, its different values, and those doubled; Unique has no CUDA kernel. */
const MIXED = Buffer.from(
  'CAgSDm1pbGxyYWNlLXRlc3RzOlUKDgoBeAoBeBIBaCIDQWRkCg4KAWgSAXUiBlVuaXF1ZQoOCgF1CgF1EgF5IgNBZGQSBWdyYXBoWg0KAXgSCAoGCAESAgoAYg0KAXkSCAoGCAESAgoAQgQKABAR',
  'base64',
);
const ON_GPU = 'instance_group { kind: KIND_GPU }';
const ONLY = 'parameters { key: "gpu_only" value { string_value: "1" } }';

export async function measureFallback(report) {
  const repository = join(temporary, 'fallback');
  const configs = { named: ON_GPU, refused: `${ON_GPU} ${ONLY}`, auto: '' };
  for (const [name, config] of Object.entries(configs)) {
    mkdirSync(join(repository, name, '1'), { recursive: true });
    writeFileSync(join(repository, name, '1', 'model.onnx'), MIXED);
    writeFileSync(join(repository, name, 'config.pbtxt'), config);
  }
  const withGpu = await indexOf(repository, []);
  report.note('withGpu', withGpu);
  const without = await indexOf(repository, ['--gpu-dir=off']);
  report.note('without', without);
  const proof = {
    nodeIsNamed: withGpu.named.state === 'READY' && /Unique/.test(withGpu.named.reason),
    nodeIsRefused: withGpu.refused.state === 'UNAVAILABLE' && /Unique/.test(withGpu.refused.reason),
    noGpuFailsTheLoad: without.named.state === 'UNAVAILABLE' && without.refused.state === 'UNAVAILABLE',
    autoTakesTheCpu: without.auto.state === 'READY',
  };
  report.note('proof', proof);
  const wrong = Object.entries(proof).filter(([, holds]) => !holds);
  if (wrong.length > 0) throw new Error(`not so: ${wrong.map(([name]) => name).join(', ')}`);
}

async function indexOf(repository, more) {
  const options = [`--model-repository=${repository}`, '--exit-on-error=false', '--log-info=false', ...more];
  const server = await startMillrace(['serve', ...options]);
  try {
    const rows = await (await fetch(`${server.url}/v2/repository/index`, { method: 'POST' })).json();
    return Object.fromEntries(rows.map(({ name, state, reason = '' }) => [name, { state, reason }]));
  } finally {
    await server.stop();
  }
}
