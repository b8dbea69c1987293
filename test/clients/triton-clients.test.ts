import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeSequenceExamples, writeSumModel } from '../fixtures/sequence-models.ts';
import { makeTritonExamples } from '../fixtures/triton-examples.ts';
import { pythonWithClients, run } from '../support/python.ts';
import { type Server, startServer } from '../support/serving.ts';

/** Against both, because no client may see which one answers. */
describe.each(['serve', 'pool'] as const)('programs with Triton’s official clients, against %s', (serving) => {
  let folder = '';
  let python = '';
  let server: Server;

  beforeAll(async () => {
    python = await pythonWithClients();
    folder = await mkdtemp(join(tmpdir(), 'millrace-triton-'));
    makeTritonExamples(folder);
    makeSequenceExamples(folder);
    writeSumModel(join(folder, 'sequence_sum'), { batching: 'max_sequence_idle_microseconds: 5000000' });
    server = await startServer(serving, [`--model-repository=${folder}`, '--log-info=false']);
  });
  afterAll(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test.each([
    'test_triton_examples.py',
    'test_triton_checks.py',
    'test_triton_shared_memory.py',
    'test_triton_sequences.py',
  ])('%s', async (file) => {
    const args = ['-m', 'pytest', '-q', '--tb=short', `test/clients/${file}`];
    const env = { MILLRACE_TEST_URL: server.url, MILLRACE_TEST_GRPC: server.grpcAddress };
    const { code, text } = await run(python, args, { env });
    expect(code, text).toBe(0);
  });
});
