import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseRestrictions } from '../../../../../producer/service/restricted-access.ts';
import { FakeDispatcher, fakeModel } from '../../../../support/fake-dispatcher.ts';
import { errorText, jsonInput, postInfer, testApp } from '../../../../support/http-app.ts';

const MODELS = ['1', '2'].map((version) => fakeModel('m', { version, versions: ['1', '2'] }));
const URL = '/v2/models/m/traffic';

let app: FastifyInstance;

beforeEach(() => {
  app = testApp(new FakeDispatcher(MODELS));
});

afterEach(() => app.close());

const set = (payload: unknown, headers: Record<string, string> = {}) =>
  app.inject({ method: 'POST', url: URL, payload: JSON.stringify(payload), headers });

async function versionsOf(requests: number): Promise<string[]> {
  const versions: string[] = [];
  for (let i = 0; i < requests; i += 1) {
    const answer = await postInfer(app, 'm', { inputs: [jsonInput('x', 'FP32', [1, 1], [1])] });
    versions.push(answer.json<{ model_version: string }>().model_version);
  }
  return versions;
}

describe('the traffic of a model', () => {
  it('is shown, set and cleared', async () => {
    expect((await app.inject(URL)).json()).toMatchObject({ model: 'm', source: 'policy', sticky: '', fallback: false });
    expect(await versionsOf(2)).toEqual(['2', '2']);
    const answer = await set({ shares: { 1: 75, 2: 25 }, sticky: 'user', fallback: true });
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toEqual({
      model: 'm',
      source: 'command',
      versions: [
        { version: '1', state: 'READY', share: 75, effective: 75, requests: 0 },
        { version: '2', state: 'READY', share: 25, effective: 25, requests: 0 },
      ],
      sticky: 'user',
      shadow: null,
      fallback: true,
      fallen: [],
    });
    expect((await versionsOf(8)).filter((version) => version === '1')).toHaveLength(6);
    const cleared = await app.inject({ method: 'DELETE', url: URL });
    expect(cleared.json()).toMatchObject({ source: 'policy' });
    expect(await versionsOf(2)).toEqual(['2', '2']);
  });

  it('of an unknown model is not found', async () => {
    for (const method of ['GET', 'POST', 'DELETE'] as const) {
      const answer = await app.inject({ method, url: '/v2/models/none/traffic', payload: '{}' });
      expect([method, answer.statusCode]).toEqual([method, 404]);
    }
  });

  it.each([
    ['', /must be a JSON object, like/],
    ['{', /cannot be parsed/],
    ['{"shares": {"1": 50}}', /the shares add up to 50, expected 100/],
    ['{"share": {}}', /unknown field "share"/],
  ])('cannot be set to %j', async (payload, text) => {
    const answer = await app.inject({ method: 'POST', url: URL, payload });
    expect(answer.statusCode).toBe(400);
    expect(errorText(answer)).toMatch(text);
    expect((await app.inject(URL)).json()).toMatchObject({ source: 'policy' });
  });

  it('is not changed for a page of another site', async () => {
    const headers = { origin: 'http://elsewhere.example', 'sec-fetch-site': 'cross-site' };
    expect((await set({ shares: { 1: 100 } }, headers)).statusCode).toBe(403);
    expect((await app.inject({ method: 'DELETE', url: URL, headers })).statusCode).toBe(403);
  });

  it('belongs to the model repository where that is restricted', async () => {
    await app.close();
    const restrictions = parseRestrictions('--http-restricted-api', ['model-repository:key=secret']);
    app = testApp(new FakeDispatcher(MODELS), {}, { restrictions });
    expect((await app.inject(URL)).statusCode).toBe(403);
    expect((await set({ shares: { 1: 100 } })).statusCode).toBe(403);
    expect((await set({ shares: { 1: 100 } }, { key: 'secret' })).statusCode).toBe(200);
  });
});
