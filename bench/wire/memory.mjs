// The memory of a server while many big requests are in hand at once.
import http from 'node:http';
import grpc from '@grpc/grpc-js';
import { within } from './children.mjs';
import { ANY_SIZE, asItIs } from './grpc-options.mjs';
import { forgetPeak, peakBytes, residentBytes } from './process-figures.mjs';
import { GRPC_METHOD, grpcRequest, HTTP_PATH, httpRequest } from './requests.mjs';

const TIMEOUT_MS = 180_000;

/** Peak above rest of one such wave, as a multiple of the bytes of the requests' tensors. */
export async function measureMemory({ pid, ports }, protocol, { requests, bytesEach }) {
  const tensor = Buffer.alloc(bytesEach, 1);
  const send = protocol === 'http' ? httpSender(ports.http, tensor) : grpcSender(ports.grpc, tensor);
  const restBytes = residentBytes(pid);
  forgetPeak(pid);
  const all = Promise.all(Array.from({ length: requests }, () => send()));
  await within(TIMEOUT_MS, all, () => `${requests} requests of ${bytesEach} bytes are not answered`);
  const aboveRestBytes = peakBytes(pid) - restBytes;
  return { protocol, requests, bytesEach, restBytes, aboveRestBytes, ratio: aboveRestBytes / (requests * bytesEach) };
}

function httpSender(port, tensor) {
  const { body, jsonLength } = httpRequest(tensor);
  const headers = { 'content-length': body.length, 'inference-header-content-length': jsonLength };
  return () =>
    new Promise((resolve, reject) => {
      const request = http.request({ port, method: 'POST', path: HTTP_PATH, headers, agent: false }, (response) => {
        let bytes = 0;
        response.on('data', (chunk) => (bytes += chunk.length));
        response.once('end', () =>
          response.statusCode === 200 && bytes > tensor.length
            ? resolve()
            : reject(new Error(`status ${response.statusCode}, ${bytes} bytes`)),
        );
        response.once('error', reject);
      });
      request.once('error', reject);
      request.end(body);
    });
}

function grpcSender(port, tensor) {
  const message = grpcRequest(tensor);
  return () =>
    new Promise((resolve, reject) => {
      const options = { ...ANY_SIZE, 'grpc.use_local_subchannel_pool': 1 };
      const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), options);
      const deadline = Date.now() + TIMEOUT_MS;
      client.makeUnaryRequest(GRPC_METHOD, asItIs, asItIs, message, { deadline }, (error) => {
        client.close();
        if (error) reject(error);
        else resolve();
      });
    });
}
