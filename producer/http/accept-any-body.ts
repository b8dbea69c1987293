import type { FastifyInstance, FastifyRequest } from 'fastify';
import { shownText } from '../../shared/tensor/text.ts';
import type { Admission } from '../service/admission.ts';
import { CONTENT_CODINGS } from './content-coding.ts';
import { HttpError } from './http-error.ts';
import { inflateBody } from './inflate-body.ts';
import { readBody, type BodyDone } from './read-body.ts';

/**
 * One body parser for every content type and none: tritonclient sends no content type, libcurl a wrong one. Routes get
 * the bytes as a Buffer and parse by themselves.
 * @param inflates says for a request with a Content-Encoding whether its body may be compressed; when not, the route gets
 * it as it came
 * @param inPieces says for a request whether its route takes a large body as Pieces
 */
export function acceptAnyBody(
  app: FastifyInstance,
  admission: Admission,
  maxBytesOf: (request: FastifyRequest) => number,
  inflates: (request: FastifyRequest) => boolean = () => false,
  inPieces: (request: FastifyRequest) => boolean = () => false,
): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request, payload, done) => {
    // Nobody is going to look at the body of a request to a path that does not exist.
    if (request.is404) done(null);
    else if (request.headers['content-encoding'] === undefined || !inflates(request)) {
      readBody(payload, maxBytesOf(request), admission, done, inPieces(request));
    } else readEncodedBody(request, maxBytesOf(request), admission, done);
  });
}

function readEncodedBody(request: FastifyRequest, maxBytes: number, admission: Admission, done: BodyDone): void {
  const encoding = request.headers['content-encoding'] ?? '';
  switch (encoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      readBody(request.raw, maxBytes, admission, done);
      return;
    case 'gzip':
      inflateBody(request.raw, 'gzip', maxBytes, admission, done);
      return;
    case 'deflate':
      inflateBody(request.raw, 'deflate', maxBytes, admission, done);
      return;
    default:
      done(unknownEncoding(encoding));
  }
}

/** The status is Triton's; the header is how a client learns what it may use instead. */
function unknownEncoding(encoding: string): HttpError {
  return new HttpError(
    501,
    `content-encoding ${shownText(encoding)} is not supported, expected ${CONTENT_CODINGS} or identity`,
    { 'accept-encoding': CONTENT_CODINGS },
  );
}
