import type { FastifyInstance } from 'fastify';
import { InferError } from '../../../shared/errors.ts';
import { shownText, shownValue } from '../../../shared/tensor/text.ts';
import { assertOwnPage } from '../../http/assert-own-page.ts';
import type { FacadeContext } from '../facade-context.ts';
import { repositoryIndex } from '../triton/metadata.ts';
import {
  assertModelName,
  controlModel,
  type RepositoryParameter,
  type RepositoryParameters,
} from '../triton/repository-parameters.ts';
import { parseJsonDocument } from './json-document.ts';
import { asObject } from './json-fields.ts';
import { sendJson } from './send-json.ts';

interface RepositoryRoute {
  Params: { repository?: string; model: string };
  Body: Buffer | undefined;
}

/** The model repository: what is in it, and its control. */
export function registerRepositoryRoutes(app: FastifyInstance, { catalog, control }: FacadeContext): void {
  // Over HTTP the index does not look at the name of a repository, load and unload refuse it; both as Triton does.
  for (const base of ['/v2/repository', '/v2/repository/:repository']) {
    app.post<RepositoryRoute>(`${base}/index`, ({ body }, reply) =>
      sendJson(reply, repositoryIndex(catalog.list(), readyFilter(body))),
    );
    for (const action of ['load', 'unload'] as const) {
      app.post<RepositoryRoute>(`${base}/models/:model/${action}`, async (request, reply) => {
        const { repository = '', model } = request.params;
        assertOwnPage(request);
        await controlModel(control, action, { repository, model }, readParameters(action, request.body));
        return reply.send(); // success has no body
      });
    }
    // A name with slashes is a mistake in the name, not in the path.
    app.post<{ Params: { '*': string } }>(`${base}/models/*`, ({ params }, reply) => {
      const [, model, action] = /^(.+)\/(load|unload)$/.exec(params['*']) ?? [];
      if (model === undefined || action === undefined) reply.callNotFound();
      else assertModelName(model);
    });
  }
}

function readyFilter(body: Buffer | undefined): boolean {
  if (!body || body.length === 0) return false;
  const { ready = false } = parseJsonDocument(body, body.length).root;
  if (typeof ready === 'boolean') return ready;
  throw new InferError('INVALID_ARGUMENT', `ready must be true or false, got ${shownValue(ready)}`);
}

function readParameters(action: string, body: Buffer | undefined): RepositoryParameters {
  if (!body || body.length === 0) return new Map();
  const { parameters = {} } = parseJsonDocument(body, body.length).root;
  const entries = Object.entries(asObject(`${action}: parameters`, parameters));
  return new Map(entries.map(([name, value]) => [name, readParameter(name, value)]));
}

/** Files come as base64 here. */
function readParameter(name: string, value: unknown): RepositoryParameter {
  if (typeof value === 'boolean') return { kind: 'boolean', value };
  if (typeof value !== 'string') return { kind: 'other' };
  if (!name.startsWith('file:')) return { kind: 'text', text: value };
  if (!isBase64(value)) throw new InferError('INVALID_ARGUMENT', `load: ${shownText(name)} is not valid base64`);
  return { kind: 'bytes', bytes: Buffer.from(value, 'base64') };
}

function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}
