import http2 from 'node:http2';

/** A gRPC client that keeps no rules: it writes what it is told, frame by frame, and reads only when asked to. */
export class RawGrpcClient {
  readonly session: http2.ClientHttp2Session;

  private constructor(session: http2.ClientHttp2Session) {
    this.session = session;
  }

  static connect(port: number, options: http2.ClientSessionOptions = {}): Promise<RawGrpcClient> {
    return new Promise((resolve, reject) => {
      // What is written ahead of the server waits in the session.
      const session = http2.connect(`http://127.0.0.1:${port}`, { maxSessionMemory: 10_000, ...options });
      session.once('error', reject);
      session.once('remoteSettings', () => {
        session.removeListener('error', reject);
        session.on('error', () => undefined);
        resolve(new RawGrpcClient(session));
      });
    });
  }

  /** Opens a call. `ended` resolves with what the server said in the end, or with how the stream was cut. */
  open(path: string, headers: http2.OutgoingHttpHeaders = {}) {
    const stream = this.session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const seen: Record<string, string | string[] | number | undefined> = {};
    stream.on('error', () => undefined);
    stream.on('response', (answer) => void Object.assign(seen, answer));
    stream.on('trailers', (trailers) => void Object.assign(seen, trailers));
    const ended = new Promise<RawEnd>((resolve) => {
      stream.once('close', () =>
        resolve({
          status: seen['grpc-status'] === undefined ? undefined : Number(seen['grpc-status']),
          message: decodeURI([seen['grpc-message'] ?? ''].join()),
          httpStatus: Number(seen[':status']),
          encoding: seen['grpc-encoding']?.toString(),
          resetCode: stream.rstCode,
        }),
      );
    });
    return { stream, ended };
  }

  close(): void {
    this.session.destroy();
  }
}

export interface RawEnd {
  readonly status: number | undefined;
  readonly message: string;
  readonly httpStatus: number;
  readonly encoding: string | undefined;
  readonly resetCode: number | undefined;
}

/** The head of a message's frame. */
export function frameHead(byteLength: number, isCompressed = false): Buffer {
  const head = Buffer.alloc(5);
  head[0] = isCompressed ? 1 : 0;
  head.writeUInt32BE(byteLength, 1);
  return head;
}

/** A message in its frame. */
export function frame(bytes: Uint8Array, isCompressed = false): Buffer {
  return Buffer.concat([frameHead(bytes.byteLength, isCompressed), bytes]);
}
