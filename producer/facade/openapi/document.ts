import { categoryOf } from '../../http/restricted-api.ts';
import type { Restrictions } from '../../service/restricted-access.ts';
import { BULK_OPERATIONS } from './bulk-operations.ts';
import { SCHEMAS } from './components.ts';
import { CONTROL_OPERATIONS } from './control-operations.ts';
import { describeModel, embeddingsExample, type ListedModel, modelOperations, modelTag } from './model-operations.ts';
import { JOB_OPERATIONS } from './job-operations.ts';
import { encodeOperation, type Json, KEY_SCHEMES, type JsonMap, type Operation } from './operation.ts';
import { POOL_OPERATIONS } from './pool-operations.ts';
import { taskOperations } from './task-operations.ts';
import { TRITON_OPERATIONS } from './triton-operations.ts';

const TAGS: readonly (readonly [name: string, description: string])[] = [
  ['Inference', 'Run any model by its name.'],
  ['Jobs', 'Inference that nobody holds a connection for.'],
  ['Hugging Face', 'The form of the Hugging Face Inference API.'],
  ['OpenAI', 'The form of OpenAI’s API.'],
  ['Metadata', 'What is served.'],
  ['Health', 'Whether it can be called.'],
  ['Model repository', 'All models with their state; loading and unloading.'],
  ['Versions', 'How requests are spread over the versions of a model.'],
  ['Pool', 'The workers behind this server.'],
  ['Statistics', 'What requests have come to.'],
  ['Settings', 'Logging and tracing.'],
  ['Shared memory', 'Tensors beside the connection, for programs on the same machine.'],
];

export interface DocumentOptions {
  readonly version: string;
  /** In the order in which they are shown. */
  readonly models: readonly ListedModel[];
  readonly restrictions: Restrictions;
  /** Whether requests need the key of a tenant. */
  readonly tenantKeys?: boolean;
}

/** The OpenAPI 3.1 document: every call of the API, and the models that are there now with bodies that can be sent. */
export function buildDocument({ version, models, restrictions, tenantKeys = false }: DocumentOptions): JsonMap {
  const operations = [...models.flatMap(modelOperations), ...listOperations(models)];
  const paths = new Map<string, Record<string, Json>>();
  const securityKeys = new Set<string>();
  for (const operation of operations) {
    const { path, method } = operation;
    const category = categoryOf(path, method.toUpperCase());
    const key = category && restrictions.keyOf(category);
    if (key !== undefined) securityKeys.add(key);
    const item = paths.get(path) ?? {};
    paths.set(path, {
      ...item,
      [method]: encodeOperation(operation, { header: key, tenantKey: tenantKeys && category !== 'health' }),
    });
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Millrace',
      version,
      summary: 'Inference over HTTP: Triton’s protocol, and the forms of Hugging Face and OpenAI',
      description:
        'The models that are loaded come first, each with a body that can be sent as it is. Below are the calls that take any model by its name. Errors are one object with one key, `{"error": "…"}`; those of OpenAI’s form have its own.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    tags: [
      ...models.map((listed) => ({ name: modelTag(listed), description: describeModel(listed) })),
      ...TAGS.map(([name, description]) => ({ name, description })),
    ],
    paths: Object.fromEntries(paths),
    components: {
      schemas: SCHEMAS as unknown as JsonMap, // TypeBox schemas are JSON Schema
      securitySchemes: describeKeys(securityKeys, tenantKeys),
    },
  };
}

function describeKeys(keys: ReadonlySet<string>, tenantKeys: boolean): JsonMap | undefined {
  if (keys.size === 0 && !tenantKeys) return undefined;
  const headers = Array.from(keys, (key): [string, Json] => [key, { type: 'apiKey', in: 'header', name: key }]);
  return { ...Object.fromEntries(headers), ...(tenantKeys && KEY_SCHEMES) };
}

/** The calls that are there whatever is loaded. */
export function listOperations(models: readonly ListedModel[]): Operation[] {
  const examples = models.flatMap((listed): [string, Json][] => {
    const example = embeddingsExample(listed);
    return example === undefined ? [] : [[listed.model.name, example]];
  });
  return [
    ...TRITON_OPERATIONS,
    ...BULK_OPERATIONS,
    ...JOB_OPERATIONS,
    ...taskOperations(Object.fromEntries(examples)),
    ...CONTROL_OPERATIONS,
    ...POOL_OPERATIONS,
  ];
}
