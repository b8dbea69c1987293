import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseWebhookSecrets, signWebhook } from '../../../../../producer/service/webhooks/webhook-secrets.ts';

const PUBLISHED = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const parse = (text: string) => parseWebhookSecrets('--webhook-secret', text);

describe('the signature of a webhook', () => {
  it('is that of the example that the libraries of Standard Webhooks are tested with', () => {
    const body = '{"test": 2432232314}';
    const headers = signWebhook(parse(PUBLISHED), 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330_000, body);
    expect(headers).toEqual({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });

  it('is there once for each secret, in their order', () => {
    const keys = [Buffer.alloc(24, 1), Buffer.alloc(64, 2)];
    const text = keys.map((key) => `whsec_${key.toString('base64')}`).join(' ');
    const { 'webhook-signature': signatures } = signWebhook(parse(text), 'id', 1500, 'body');
    const expected = keys.map((key) => `v1,${createHmac('sha256', key).update('id.1.body').digest('base64')}`);
    expect(signatures).toBe(expected.join(' '));
  });
});

describe('secrets of webhooks', () => {
  it.each([
    ['', 'has 0 secrets, expected 1 to 3'],
    [Array<string>(4).fill(PUBLISHED).join(' '), 'has 4 secrets, expected 1 to 3'],
    ['supersecret', 'secret 1 of 1 is not of the right form'],
    [`${PUBLISHED} whsec_not-base64-at-all`, 'secret 2 of 2 is not of the right form'],
    ['whsec_c2hvcnQ=', 'secret 1 of 1 has 5 bytes'],
  ])('are refused when they are %j, without telling them', (text, message) => {
    expect(() => parse(text)).toThrow(message);
    expect(() => parse(text)).not.toThrow(/supersecret|c2hvcnQ/);
  });
});
