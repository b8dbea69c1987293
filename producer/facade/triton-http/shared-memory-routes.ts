import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import type { RegionStatus } from '../../service/shared-memory.ts';
import { HttpError } from '../../http/http-error.ts';
import type { FacadeContext } from '../facade-context.ts';
import { assertNoCudaRegion, refuseCudaRegister, unregisterCuda } from '../triton/cuda-memory.ts';
import { asByteCount } from '../triton/region-parameters.ts';
import { parseJsonDocument } from './json-document.ts';
import { sendJson } from './send-json.ts';

interface RegionRoute {
  Params: { region: string };
  Body: Buffer | undefined;
}

/** The system and CUDA shared memory extensions. */
export function registerSharedMemoryRoutes(app: FastifyInstance, { sharedMemory }: FacadeContext): void {
  const system = '/v2/systemsharedmemory';
  app.get(`${system}/status`, (_request, reply) => sendRegions(reply, sharedMemory.status()));
  app.get<RegionRoute>(`${system}/region/:region/status`, ({ params }, reply) =>
    sendRegions(reply, sharedMemory.status(params.region)),
  );
  app.post<RegionRoute>(`${system}/region/:region/register`, (request, reply) => {
    assertNoPage(request);
    const { key, offset, byteLength } = decodeRegister(request.params.region, request.body);
    sharedMemory.register(request.params.region, key, offset, byteLength);
    return reply.send();
  });
  app.post(`${system}/unregister`, (request, reply) => {
    assertNoPage(request);
    sharedMemory.unregisterAll();
    return reply.send();
  });
  app.post<RegionRoute>(`${system}/region/:region/unregister`, (request, reply) => {
    assertNoPage(request);
    sharedMemory.unregister(request.params.region);
    return reply.send();
  });

  const cuda = '/v2/cudasharedmemory';
  app.get(`${cuda}/status`, (_request, reply) => sendRegions(reply, []));
  app.get<RegionRoute>(`${cuda}/region/:region/status`, ({ params }) => assertNoCudaRegion(params.region));
  app.post<RegionRoute>(`${cuda}/region/:region/register`, ({ params }) =>
    refuseCudaRegister(sharedMemory, params.region),
  );
  for (const path of [`${cuda}/unregister`, `${cuda}/region/:region/unregister`]) {
    app.post(path, (_request, reply) => {
      unregisterCuda(sharedMemory);
      return reply.send();
    });
  }
}

/**
 * A page of any website that is open on this machine can post to a server on loopback. Browsers send these headers with
 * every post of a page, programs do not.
 */
function assertNoPage({ headers }: FastifyRequest): void {
  if (headers.origin === undefined && headers['sec-fetch-site'] === undefined) return;
  throw new HttpError(403, 'shared memory is for programs on this machine, not for web pages');
}

function decodeRegister(region: string, body: Buffer | undefined) {
  const where = `shared memory region ${region}`;
  if (!body || body.length === 0) {
    throw new InferError('INVALID_ARGUMENT', `${where}: expected a JSON object with key and byte_size, got no body`);
  }
  const { key, offset = 0, byte_size: byteSize } = parseJsonDocument(body, body.length).root;
  if (typeof key !== 'string') throw new InferError('INVALID_ARGUMENT', `${where}: key must be a string`);
  return {
    key,
    offset: asByteCount(`${where}: offset`, offset),
    byteLength: asByteCount(`${where}: byte_size`, byteSize),
  };
}

function sendRegions(reply: FastifyReply, regions: readonly RegionStatus[]): FastifyReply {
  const rows = regions.map(({ name, key, offset, byteLength }) => ({ name, key, offset, byte_size: byteLength }));
  return sendJson(reply, rows);
}
