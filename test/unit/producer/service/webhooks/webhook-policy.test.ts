import { describe, expect, it } from 'vitest';
import { WebhookPolicy } from '../../../../../producer/service/webhooks/webhook-policy.ts';

const open = new WebhookPolicy({ secrets: [], allowPrivate: true });
const closed = new WebhookPolicy({ secrets: [], allowPrivate: false });

describe('a webhook', () => {
  it('is refused where they are switched off, with words on how to switch them on', () => {
    expect(() => new WebhookPolicy(undefined).assertUsable('https://example.com')).toThrow('--webhook-secret');
  });

  it.each([
    ['something/else', 'must be an http or https URL'],
    ['ftp://example.com/', 'must be an http or https URL'],
    ['file:///etc/passwd', 'must be an http or https URL'],
    ['https://user:word@example.com/', 'without user and password'],
    [`https://example.com/${'x'.repeat(2048)}`, 'at most 2048 characters, got 2068'],
  ])('is refused when it is %s', (url, message) => {
    expect(() => open.assertUsable(url)).toThrow(message);
  });

  it.each([
    'http://127.0.0.1/',
    'http://2130706433/',
    'http://0x7f.1/',
    'http://[::1]:80/',
    'http://[::ffff:10.0.0.1]/',
    'https://169.254.169.254/latest/meta-data',
  ])('is refused when it goes to the private address %s, unless that is allowed', (url) => {
    expect(() => closed.assertUsable(url)).toThrow('expected one on the internet');
    expect(() => open.assertUsable(url)).not.toThrow();
  });

  it.each(['https://example.com/hook?token=1', 'http://8.8.8.8:8080/', 'http://localhost/later'])(
    'may be %s as far as can be known before it is sent',
    (url) => expect(() => closed.assertUsable(url)).not.toThrow(),
  );
});
