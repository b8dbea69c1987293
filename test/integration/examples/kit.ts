import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { createApp } from '../../../producer/app.ts';
import { registerHuggingFaceRoutes } from '../../../producer/facade/huggingface/routes.ts';
import { registerOpenAiRoutes } from '../../../producer/facade/openai/routes.ts';
import { registerOpenApiRoutes } from '../../../producer/facade/openapi/routes.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../../producer/http/http-settings.ts';
import { createPreprocessor, type Preprocessor } from '../../../producer/preprocess/preprocessor.ts';
import { NO_RESTRICTIONS } from '../../../producer/service/restricted-access.ts';
import { createServices } from '../../../producer/service/services.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { createCApiBackend } from '../../../worker/engine/backend/onnx/c-api/c-api-backend.ts';
import { createEngine } from '../../../worker/engine/create-engine.ts';
import type { Engine } from '../../../worker/engine/engine.ts';

const root = new URL('../../../', import.meta.url);

export const examplePath = (name: string) => fileURLToPath(new URL(`examples/${name}`, root));
export const exampleFile = (name: string) => readFileSync(examplePath(name));

/** The reference folder of the models, which is not part of this repository. */
export const sharedModelFile = (name: string) => readFileSync(new URL(`../shared/models/${name}`, root));
export const sharedModelJson = (name: string): unknown => JSON.parse(sharedModelFile(name).toString('utf8'));

export interface Examples {
  readonly app: FastifyInstance;
  readonly engine: Engine;
  readonly preprocessor: Preprocessor;
  /** Listens on a free port of the loopback address. */
  listen(): Promise<string>;
  close(): Promise<void>;
}

/** The example models, served as `millrace serve` does. */
export async function serveExamples(): Promise<Examples> {
  const engine = await createEngine({
    repositories: [examplePath('models')],
    backend: createCApiBackend(),
    logger: silentLogger,
    instanceSlots: 2,
  });
  const preprocessor = createPreprocessor();
  const app = createApp({
    services: createServices({
      dispatcher: engine,
      settings: DEFAULT_HTTP_SETTINGS,
      logger: silentLogger,
      version: '0.0.0-test',
    }),
    settings: DEFAULT_HTTP_SETTINGS,
    facades: [
      (scope, context) => registerHuggingFaceRoutes(scope, context, preprocessor),
      (scope, context) => registerOpenAiRoutes(scope, context, preprocessor),
      (scope, context) => registerOpenApiRoutes(scope, context, { preprocessor, restrictions: NO_RESTRICTIONS }),
    ],
  });
  return {
    app,
    engine,
    preprocessor,
    listen: () => app.listen({ host: '127.0.0.1', port: 0 }),
    async close() {
      await app.close();
      await engine.close(5000);
      await preprocessor.close();
    },
  };
}
