// `node bench/wire/load-grpc.mjs PORT FILE SECONDS CONNECTIONS`: sends the message in FILE again and again, one call at a
// time on each of so many loops over two channels. Prints how many answers came.
import { readFileSync } from 'node:fs';
import grpc from '@grpc/grpc-js';
import { ANY_SIZE, asItIs } from './grpc-options.mjs';
import { GRPC_METHOD } from './requests.mjs';

const CALL_MS = 20_000;
const [port, file, seconds, connections] = process.argv.slice(2);
const message = readFileSync(file);
const clients = [0, 1].map(
  (index) =>
    new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), {
      ...ANY_SIZE,
      'grpc.use_local_subchannel_pool': 1,
      'bench.channel': index,
    }),
);
const endMs = performance.now() + Number(seconds) * 1000;
let answers = 0;
await Promise.all(Array.from({ length: Number(connections) }, (_, index) => loop(clients[index % clients.length])));
clients.forEach((client) => client.close());
console.log(answers);

async function loop(client) {
  while (performance.now() < endMs) {
    await new Promise((resolve, reject) => {
      client.makeUnaryRequest(GRPC_METHOD, asItIs, asItIs, message, { deadline: Date.now() + CALL_MS }, (error) =>
        error ? reject(error) : resolve(),
      );
    });
    answers += 1;
  }
}
