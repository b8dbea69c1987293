import type { FastifyInstance, FastifyRequest } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { shownValue } from '../../../shared/tensor/text.ts';
import { assertOwnPage } from '../../http/assert-own-page.ts';
import type { TraceChange } from '../../service/trace-settings.ts';
import type { FacadeContext } from '../facade-context.ts';
import { assertKnownModel } from '../triton/known-model.ts';
import { parseJsonDocument } from './json-document.ts';
import { sendJson } from './send-json.ts';

interface SettingsRoute {
  Params: { model?: string };
  Body: Buffer | undefined;
}

/** Trace and log settings. A POST changes what it names, and is answered with all. */
export function registerSettingsRoutes(app: FastifyInstance, context: FacadeContext): void {
  const { catalog, traceSettings, logSettings } = context;
  for (const path of ['/v2/trace/setting', '/v2/models/:model/trace/setting']) {
    app.get<SettingsRoute>(path, ({ params: { model } }, reply) => {
      if (model !== undefined) assertKnownModel(catalog, model);
      return sendJson(reply, traceSettings.valuesOf(model));
    });
    app.post<SettingsRoute>(path, (request, reply) => {
      const { model } = request.params;
      if (model !== undefined) assertKnownModel(catalog, model);
      traceSettings.change(model, traceChange(readObject(request)));
      return sendJson(reply, traceSettings.valuesOf(model));
    });
  }
  app.get('/v2/logging', (_request, reply) => sendJson(reply, logSettings.values));
  app.post<SettingsRoute>('/v2/logging', (request, reply) => {
    logSettings.change(new Map(Object.entries(readObject(request))));
    return sendJson(reply, logSettings.values);
  });
}

function readObject(request: FastifyRequest<SettingsRoute>): Record<string, unknown> {
  assertOwnPage(request);
  const { body } = request;
  if (!body || body.length === 0)
    throw new InferError('INVALID_ARGUMENT', 'the body must be a JSON object of settings');
  return parseJsonDocument(body, body.length).root;
}

function traceChange(settings: Record<string, unknown>): TraceChange {
  return new Map(Object.entries(settings).map(([name, value]) => [name, traceTexts(name, value)]));
}

/** `null` takes a value back; numbers are texts here, as Triton wants them. */
function traceTexts(name: string, value: unknown): readonly string[] {
  if (value === null) return [];
  if (typeof value === 'string') return [value];
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string')) return value;
  throw new InferError(
    'INVALID_ARGUMENT',
    `trace setting ${name} must be a string, an array of strings or null, got ${shownValue(value)}`,
  );
}
