import { parseWebhookSecrets } from '../producer/service/webhooks/webhook-secrets.ts';
import type { WebhookSettings } from '../producer/service/webhooks/webhook-policy.ts';
import type { Settings } from './flags/catalogue.ts';

/** Undefined where webhooks are switched off. @throws InferError INVALID_ARGUMENT for secrets that cannot be used */
export function webhookSettingsOf(
  settings: Pick<Settings<'producer'>, 'webhookSecret' | 'webhookAllowPrivate'>,
): WebhookSettings | undefined {
  const { webhookSecret, webhookAllowPrivate: allowPrivate } = settings;
  if (webhookSecret === undefined) return undefined;
  return { secrets: parseWebhookSecrets('--webhook-secret', webhookSecret), allowPrivate };
}
