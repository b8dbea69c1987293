import http from 'node:http';
import type { Socket } from 'node:net';
import type { HttpSettings } from './http-settings.ts';

const CONTENT_TYPE = /^\s*[\w!#$%&'*+.^|~-]+\/[\w!#$%&'*+.^|~-]+\s*(?:;|$)/;

/** Stands on answers whose requests may take as long as both sides make progress. */
const TAKES_TIME = Symbol('takes time');

type MarkedResponse = http.ServerResponse & { [TAKES_TIME]?: true };

/** Frees a request from the time in which it must be complete: whoever reads it looks after that. */
export function takeTime(response: http.ServerResponse): void {
  (response as MarkedResponse)[TAKES_TIME] = true;
}

export interface HttpServer {
  readonly server: http.Server;
  /** From now on new requests get 503, and connections close after the answer that they wait for. */
  drain(): void;
  /** The server has closed: nothing is left to drain. */
  drained(): void;
}

/** The Node server under the application, with the limits that end slow clients. It does not listen yet. */
export function createHttpServer(settings: HttpSettings, handler: http.RequestListener): HttpServer {
  let draining = false;
  let timers: NodeJS.Timeout[] = [];
  const server = http.createServer(
    {
      requestTimeout: settings.receiveTimeoutMs,
      headersTimeout: Math.min(settings.headersTimeoutMs, settings.receiveTimeoutMs),
      keepAliveTimeout: settings.keepAliveTimeoutMs,
      // How often the first two are looked at.
      connectionsCheckingInterval: Math.min(5_000, Math.max(50, settings.headersTimeoutMs / 2)),
    },
    (request, response) => {
      if (draining) {
        refuse(response);
        return;
      }
      dropOddContentType(request);
      handler(request, response);
    },
  );
  // A client that asks before it sends is not invited to send what will be refused by its length.
  server.on('checkContinue', (request, response) => {
    if (!(Number(request.headers['content-length']) > settings.maxBodyBytes)) response.writeContinue();
    server.emit('request', request, response);
  });
  return {
    server,
    drain() {
      draining = true;
      // Connections that become idle from now on would be kept until their keep-alive ends.
      timers = [
        setInterval(() => server.closeIdleConnections(), 50),
        setTimeout(() => server.closeAllConnections(), settings.drainTimeoutMs),
      ];
    },
    drained() {
      timers.forEach(clearTimeout);
    },
  };
}

/** Content types say nothing here, and Fastify refuses those that it cannot parse, such as a bare word. */
function dropOddContentType({ headers }: http.IncomingMessage): void {
  const type = headers['content-type'];
  if (type !== undefined && !CONTENT_TYPE.test(type)) delete headers['content-type'];
}

function refuse(response: http.ServerResponse): void {
  const body = JSON.stringify({ error: 'the server is shutting down' });
  response.writeHead(503, { 'content-type': 'application/json', 'content-length': body.length, connection: 'close' });
  response.end(body);
}

/** Answers what is not HTTP, or took too long to become it, on the bare socket. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  // Node keeps the answer under way there, and looks at it for the same reason: text written now would become part of it.
  const { _httpMessage: response } = socket as Socket & { _httpMessage?: MarkedResponse | null };
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && response?.[TAKES_TIME] === true) return;
  if (!socket.writable || error.code === 'ECONNRESET' || response?.headersSent === true) {
    socket.destroy();
    return;
  }
  const [status, message] = describeBrokenRequest(error.code);
  const body = JSON.stringify({ error: message });
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

function describeBrokenRequest(code: string | undefined): [status: string, message: string] {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['408 Request Timeout', 'the request was not complete in time'];
    case 'HPE_HEADER_OVERFLOW':
      return ['431 Request Header Fields Too Large', 'the request headers are too large'];
    default:
      return ['400 Bad Request', 'the request is not valid HTTP'];
  }
}
