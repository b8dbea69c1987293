// A worker process, as built, whose engine takes the whole process down when it runs a request that says "poison".
// It echoes any other request. Run with the address of Redis; prints a line when it takes work.
import { create } from '@bufbuild/protobuf';
import { createReadyModel } from '../../dist/shared/model/create-ready-model.js';
import { ModelConfigSchema } from '../../dist/shared/proto/generated/model_config_pb.js';
import { silentLogger } from '../../dist/shared/runtime/logger.js';
import { createConsumer } from '../../dist/worker/consumer/create-consumer.js';

const tensor = { dataType: 2, dims: [-1n] };
const config = create(ModelConfigSchema, {
  name: 'fragile',
  maxBatchSize: 32,
  input: [{ ...tensor, name: 'x' }],
  output: [{ ...tensor, name: 'y' }],
});
const files = { names: [], read: () => Promise.reject(new Error('no files')) };
const model = createReadyModel({ config, version: '1', versions: ['1'], labels: new Map(), files });
const catalog = {
  resolve: () => model,
  list: () => [{ name: 'fragile', version: '1', state: 'READY', reason: '' }],
  ready: () => true,
};
const timings = {
  queueUs: 0,
  computeInputUs: 0,
  computeInferUs: 0,
  computeOutputUs: 0,
  batchSize: 1,
  executions: 1,
  release: 'direct',
};

async function infer({ model: name, inputs: [x], parameters }, call) {
  call.started = true;
  await new Promise((resolve) => setTimeout(resolve, 5));
  if (Buffer.from(x.data).toString() === 'poison') process.kill(process.pid, 'SIGKILL');
  return { model: name, version: '1', outputs: [{ ...x, name: 'y' }], parameters, timings };
}

await createConsumer({ redisUrl: process.argv[2], engine: { infer, catalog }, logger: silentLogger });
console.log('ready');
