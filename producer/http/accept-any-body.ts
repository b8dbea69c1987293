import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Admission } from '../service/admission.ts';
import { readBody } from './read-body.ts';

/**
 * One body parser for every content type and none: tritonclient sends no content type, libcurl a wrong one. Routes get
 * the bytes as a Buffer and parse by themselves.
 */
export function acceptAnyBody(
  app: FastifyInstance,
  admission: Admission,
  maxBytesOf: (request: FastifyRequest) => number,
): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request, payload, done) => {
    // Nobody is going to look at the body of a request to a path that does not exist.
    if (request.is404) done(null);
    else readBody(payload, maxBytesOf(request), admission, done);
  });
}
