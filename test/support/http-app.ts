import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { createApp } from '../../producer/app.ts';
import type { Facade } from '../../producer/facade/facade-context.ts';
import { DEFAULT_HTTP_SETTINGS, type HttpSettings } from '../../producer/http/http-settings.ts';
import type { Restrictions } from '../../producer/service/restricted-access.ts';
import type { Tenants } from '../../producer/service/tenants/tenants.ts';
import { createServices } from '../../producer/service/services.ts';
import { type Logger, silentLogger } from '../../shared/runtime/logger.ts';
import type { FakeDispatcher } from './fake-dispatcher.ts';

export function testApp(
  dispatcher: FakeDispatcher,
  settings: Partial<HttpSettings> = {},
  more: { facades?: Facade[]; logger?: Logger; restrictions?: Restrictions; tenants?: Tenants } = {},
): FastifyInstance {
  const all = { ...DEFAULT_HTTP_SETTINGS, ...settings };
  return createApp({
    services: createServices({
      dispatcher,
      settings: all,
      logger: more.logger ?? silentLogger,
      version: '0.0.0-test',
      tenants: more.tenants,
    }),
    settings: all,
    ...(more.facades ? { facades: more.facades } : {}),
    ...(more.restrictions ? { restrictions: more.restrictions } : {}),
  });
}

export interface InferOptions {
  /** Bytes that follow the JSON; the length header is set when there are any. */
  readonly binary?: Uint8Array;
  readonly headers?: Record<string, string>;
  readonly version?: string;
}

/** POSTs an infer request; the body is a JSON value, or text or bytes to be sent as they are. */
export function postInfer(
  app: FastifyInstance,
  model: string,
  body: unknown,
  { binary, headers = {}, version }: InferOptions = {},
): Promise<LightMyRequestResponse> {
  const json = body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : toJson(body));
  const lengthHeader = binary ? { 'inference-header-content-length': String(json.length) } : {};
  return app.inject({
    method: 'POST',
    url: `/v2/models/${model}${version === undefined ? '' : `/versions/${version}`}/infer`,
    payload: Buffer.concat([json, binary ?? new Uint8Array()]),
    headers: { ...lengthHeader, ...headers },
  });
}

/** JSON with bigint written as the number it is. */
function toJson(value: unknown): string {
  const marked = JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? `@@${item}@@` : item));
  return marked.replace(/"@@(-?\d+)@@"/g, '$1');
}

/** A binary infer answer, taken apart. */
export function splitAnswer(response: LightMyRequestResponse): { head: InferAnswer; tail: Buffer } {
  const length = Number(response.headers['inference-header-content-length'] ?? response.rawPayload.length);
  return {
    head: JSON.parse(response.rawPayload.toString('utf8', 0, length)) as InferAnswer,
    tail: response.rawPayload.subarray(length),
  };
}

export interface InferAnswer {
  readonly id?: string;
  readonly model_name: string;
  readonly model_version: string;
  readonly outputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly number[];
    readonly parameters?: { readonly binary_data_size?: number };
    readonly data?: readonly unknown[];
  }[];
}

/** An entry of `inputs` with JSON data. */
export function jsonInput(name: string, datatype: string, shape: unknown, data: unknown) {
  return { name, datatype, shape, data };
}

/** An entry of `inputs` whose bytes follow the JSON. */
export function binaryInput(name: string, datatype: string, shape: unknown, size: unknown) {
  return { name, datatype, shape, parameters: { binary_data_size: size } };
}

/** The error text of a refusal, after a check that it is the one JSON object that it must be. */
export function errorText(response: LightMyRequestResponse): string {
  const body = response.json<Record<string, unknown>>();
  if (Object.keys(body).join() !== 'error' || typeof body.error !== 'string' || body.error === '') {
    throw new Error(`not an error answer: ${response.payload}`);
  }
  if (!response.headers['x-request-id']) throw new Error('the error has no request id');
  return body.error;
}
