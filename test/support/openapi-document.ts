/** An OpenAPI document as the tests read it; only what they look at. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly securitySchemes?: Readonly<Record<string, unknown>>;
  };
}

export interface OpenApiOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: object;
  }[];
  readonly requestBody?: { readonly required: boolean; readonly content: OpenApiContent };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: OpenApiContent }>>;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
}

export type OpenApiContent = Readonly<
  Record<
    string,
    {
      readonly schema: object;
      readonly example?: unknown;
      readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
    }
  >
>;

export interface NamedOperation extends OpenApiOperation {
  readonly path: string;
  readonly method: string;
}

export function operationsOf(document: OpenApiDocument): NamedOperation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, ...operation })),
  );
}

/** A body that the document shows, and where it goes. */
export interface ShownBody {
  readonly method: string;
  readonly path: string;
  readonly mediaType: string;
  readonly payload: string;
}

/** Every example of a request body. */
export function shownBodies(document: OpenApiDocument): ShownBody[] {
  return operationsOf(document).flatMap(({ method, path, requestBody }) =>
    Object.entries(requestBody?.content ?? {}).flatMap(([mediaType, { example, examples = {} }]) => {
      const values = Object.values(examples).map(({ value }) => value);
      return [...(example === undefined ? [] : [example]), ...values].map((value) => ({
        method,
        path,
        mediaType,
        payload: typeof value === 'string' ? value : JSON.stringify(value),
      }));
    }),
  );
}

/** A schema with the references of the document filled in. */
export function resolveRefs(document: OpenApiDocument, schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((one) => resolveRefs(document, one));
  if (typeof schema !== 'object' || schema === null) return schema;
  if ('$ref' in schema) {
    const name = String(schema.$ref).replace('#/components/schemas/', '');
    const found = document.components.schemas[name];
    if (!found) throw new Error(`the document has no schema ${String(schema.$ref)}`);
    return resolveRefs(document, found);
  }
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, resolveRefs(document, value)]));
}

/** What OpenAPI 3.1 asks of a document, as far as ours can get it wrong. An empty list is a valid one. */
export function structureProblems(document: OpenApiDocument): string[] {
  const problems: string[] = [];
  if (!/^3\.1\.\d+$/.test(document.openapi)) problems.push(`openapi is ${document.openapi}`);
  const tags = new Set(document.tags.map(({ name }) => name));
  if (tags.size !== document.tags.length) problems.push('a tag is declared twice');
  const ids = new Set<string>();
  const templates = new Set<string>();
  for (const path of Object.keys(document.paths)) {
    if (!path.startsWith('/')) problems.push(`path ${path} does not begin with a slash`);
    const template = path.replace(/\{\w+\}/g, '{}');
    if (templates.has(template)) problems.push(`two paths look like ${template}`);
    templates.add(template);
  }
  for (const operation of operationsOf(document)) {
    const where = `${operation.method} ${operation.path}`;
    if (!['get', 'post', 'delete'].includes(operation.method)) problems.push(`${where}: no such method`);
    if (ids.has(operation.operationId)) problems.push(`${where}: its operationId is taken`);
    ids.add(operation.operationId);
    for (const tag of operation.tags) if (!tags.has(tag)) problems.push(`${where}: tag ${tag} is not declared`);
    const declared = operation.parameters.filter((one) => one.in === 'path').map(({ name }) => name);
    const used = Array.from(operation.path.matchAll(/\{(\w+)\}/g), ([, name]) => name);
    if (declared.join() !== used.join()) problems.push(`${where}: parameters ${declared.join()} for ${used.join()}`);
    if (operation.parameters.some((one) => one.in === 'path' && one.required !== true)) {
      problems.push(`${where}: a path parameter is not required`);
    }
    if (operation.summary === '') problems.push(`${where}: no summary`);
    if (operation.method === 'get' && operation.requestBody) problems.push(`${where}: a GET with a body`);
    for (const [status, { description }] of Object.entries(operation.responses)) {
      if (!/^(?:[1-5]\d\d|[1-5]XX|default)$/.test(status)) problems.push(`${where}: no status ${status}`);
      if (description === '') problems.push(`${where}: ${status} has no description`);
    }
    for (const requirement of operation.security ?? []) {
      for (const name of Object.keys(requirement)) {
        if (!(name in (document.components.securitySchemes ?? {})))
          problems.push(`${where}: no security scheme ${name}`);
      }
    }
  }
  return problems;
}
