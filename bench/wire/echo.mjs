// `node bench/wire/echo.mjs http|grpc`: a bare server that sends back the bytes of each request. Prints its port.
import grpc from '@grpc/grpc-js';
import fastify from 'fastify';
import { ANY_SIZE, asItIs } from './grpc-options.mjs';
import { GRPC_METHOD } from './requests.mjs';

const servers = { http: echoHttp, grpc: echoGrpc };
await servers[process.argv[2]]();

async function echoHttp() {
  const app = fastify({ bodyLimit: 64 * 1024 * 1024 });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post('/*', (request, reply) => reply.header('content-type', 'application/octet-stream').send(request.body));
  await app.listen({ host: '127.0.0.1', port: 0 });
  console.log(app.server.address().port);
}

async function echoGrpc() {
  const server = new grpc.Server(ANY_SIZE);
  const infer = {
    path: GRPC_METHOD,
    requestStream: false,
    responseStream: false,
    requestSerialize: asItIs,
    requestDeserialize: asItIs,
    responseSerialize: asItIs,
    responseDeserialize: asItIs,
  };
  server.addService({ infer }, { infer: (call, callback) => callback(null, call.request) });
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    console.log(port);
  });
}
