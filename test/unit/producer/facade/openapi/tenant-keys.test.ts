import { expect, test } from 'vitest';
import { buildDocument } from '../../../../../producer/facade/openapi/document.ts';
import { NO_RESTRICTIONS, parseRestrictions } from '../../../../../producer/service/restricted-access.ts';
import { type OpenApiDocument, structureProblems } from '../../../../support/openapi-document.ts';

function documentOf(tenantKeys: boolean, restrictions = NO_RESTRICTIONS): OpenApiDocument {
  const document = buildDocument({ version: '1', models: [], restrictions, tenantKeys });
  const parsed = JSON.parse(JSON.stringify(document)) as OpenApiDocument; // as it is sent
  expect(structureProblems(parsed)).toEqual([]);
  return parsed;
}

const operationOf = (document: OpenApiDocument, path: string, method: 'get' | 'post') =>
  (document.paths as unknown as Record<string, Record<string, { security?: unknown; responses: object }>>)[path]![
    method
  ]!;

test('where keys are needed the document says how they are sent, what comes without one, and that health is open', () => {
  const document = documentOf(true);
  expect(document.components.securitySchemes).toMatchObject({
    bearer: { type: 'http', scheme: 'bearer' },
    apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
  });
  const infer = operationOf(document, '/v2/models/{model}/infer', 'post');
  expect(infer.security).toEqual([{ bearer: [] }, { apiKey: [] }]);
  expect(infer.responses).toMatchObject({
    401: { headers: { 'WWW-Authenticate': {} } },
    403: {},
    429: { headers: { 'Retry-After': {} } },
  });
  const live = operationOf(document, '/v2/health/live', 'get');
  expect(live.security).toBeUndefined();
  expect(live.responses).not.toHaveProperty('401');
});

test('a restricted call needs its header beside the key', () => {
  const restrictions = parseRestrictions('--http-restricted-api', ['inference:my-key=secret']);
  const infer = operationOf(documentOf(true, restrictions), '/v2/models/{model}/infer', 'post');
  expect(infer.security).toEqual([
    { 'my-key': [], bearer: [] },
    { 'my-key': [], apiKey: [] },
  ]);
});

test('without keys nothing of them is said, but that 429 says when to come again', () => {
  const document = documentOf(false);
  expect(document.components.securitySchemes).toBeUndefined();
  const infer = operationOf(document, '/v2/models/{model}/infer', 'post');
  expect(infer.security).toBeUndefined();
  expect(infer.responses).not.toHaveProperty('401');
  expect(infer.responses).toMatchObject({ 429: { headers: { 'Retry-After': {} } } });
});
