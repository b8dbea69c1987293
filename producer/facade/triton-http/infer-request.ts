import type { FastifyRequest } from 'fastify';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Pieces } from '../../../shared/tensor/pieces.ts';
import { HttpError } from '../../http/http-error.ts';
import type { HttpSettings } from '../../http/http-settings.ts';
import type { FacadeContext } from '../facade-context.ts';
import { type DecodedRequest, decodeInferRequest } from './codec.ts';
import type { HeadCache } from './head-cache.ts';
import { HEADER_LENGTH } from './infer-answer.ts';

/** An infer request of an HTTP client, with what it was decoded by. */
export interface ReadRequest {
  readonly decoded: DecodedRequest;
  readonly model: ReadyModel;
  /** The whole body, of which tensors may be views. */
  readonly bytes: Buffer | Pieces;
}

/** @throws InferError, or HttpError 413 for JSON that is too long */
export function readInferRequest(
  request: Pick<FastifyRequest<{ Params: { model: string; version?: string } }>, 'params' | 'headers'>,
  body: Buffer | Pieces | undefined,
  { catalog, sharedMemory }: Pick<FacadeContext, 'catalog' | 'sharedMemory'>,
  { maxJsonBytes }: Pick<HttpSettings, 'maxJsonBytes'>,
  heads: HeadCache,
): ReadRequest {
  const { model: name, version = '' } = request.params;
  const model = catalog.resolve(name, version);
  const headerLength = singleHeader(request.headers[HEADER_LENGTH]);
  const bytes = body ?? Buffer.alloc(0);
  if (Math.min(Number(headerLength), bytes.length) > maxJsonBytes) throw jsonTooLarge(maxJsonBytes);
  return { decoded: decodeInferRequest(bytes, headerLength, model, version, heads, sharedMemory), model, bytes };
}

function singleHeader(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.join(', ');
}

function jsonTooLarge(maxJsonBytes: number): HttpError {
  return new HttpError(413, `the JSON part of the request is larger than the limit of ${maxJsonBytes} bytes`);
}
