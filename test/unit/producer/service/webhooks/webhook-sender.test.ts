import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { WebhookSender } from '../../../../../producer/service/webhooks/webhook-sender.ts';

const secrets = [Buffer.alloc(32, 7)];
const open = new WebhookSender({ secrets, allowPrivate: true });
const closed = new WebhookSender({ secrets, allowPrivate: false });

let server: Server;
let requests = 0;

async function receiver(listener: RequestListener): Promise<string> {
  requests = 0;
  server = createServer((request, response) => {
    requests += 1;
    listener(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
}

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

const send = (url: string, sender = open, signal?: AbortSignal) => sender.send({ id: 'j1', url, body: '{}' }, signal);

describe('a try to send a webhook', () => {
  it.each([
    [200, { kind: 'delivered' }],
    [204, { kind: 'delivered' }],
    [302, { kind: 'again', reason: 'answered 302' }],
    [410, { kind: 'ended', reason: 'answered 410' }],
    [500, { kind: 'again', reason: 'answered 500' }],
  ])('that is answered with %i', async (status, outcome) => {
    const url = await receiver((_request, response) => {
      response.writeHead(status, { location: '/elsewhere' }).end();
    });
    expect(await send(url)).toEqual(outcome);
    expect(requests).toBe(1);
  });

  it('reads no endless answer', async () => {
    let cut: Promise<unknown> = Promise.resolve();
    const url = await receiver((_request, response) => {
      cut = once(response, 'close');
      const more = (): void => {
        response.write('x'.repeat(4096), () => {
          if (!response.destroyed) more();
        });
      };
      more();
    });
    expect(await send(url)).toEqual({ kind: 'delivered' });
    await cut;
  });

  it('is made again when the connection breaks', async () => {
    const url = await receiver((request) => request.socket.destroy());
    expect(await send(url)).toEqual({ kind: 'again', reason: 'no answer: ECONNRESET' });
  });

  it('ends when nobody waits for it any more', async () => {
    const cut = new AbortController();
    const url = await receiver(() => cut.abort());
    expect(await send(url, open, cut.signal)).toMatchObject({ kind: 'again' });
  });

  it.each([
    ['an address', (port: string) => `http://127.0.0.1:${port}/`],
    ['a mapped address', (port: string) => `http://[::ffff:127.0.0.1]:${port}/`],
    ['a name for one', (port: string) => `http://localhost:${port}/`],
  ])('does not reach this machine by %s, unless that is allowed', async (_how, urlOf) => {
    const url = await receiver((_request, response) => response.end());
    const refused = await send(urlOf(new URL(url).port), closed);
    expect(refused).toMatchObject({ kind: 'ended', reason: expect.stringContaining('not on the internet') as string });
    expect(requests).toBe(0);
    expect(await send(url)).toEqual({ kind: 'delivered' });
  });
});
