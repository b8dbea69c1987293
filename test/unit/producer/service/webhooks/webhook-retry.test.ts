import { expect, it } from 'vitest';
import { MAX_TRIES, webhookRetryMs } from '../../../../../producer/service/webhooks/webhook-retry.ts';

const TRIES = Array.from({ length: MAX_TRIES - 1 }, (_, at) => at + 1);

it('waits longer after each try, at most half an hour, and about an hour in all', () => {
  const waits = TRIES.map((tries) => webhookRetryMs(tries, 0.5) / 1000);
  expect(waits).toEqual([1, 4, 16, 64, 256, 1024, 1800]);
});

it('spreads the waits by a tenth to both sides', () => {
  expect([webhookRetryMs(1, 0), webhookRetryMs(1, 1)]).toEqual([900, 1100]);
});
