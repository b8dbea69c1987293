import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import type { Facade } from '../../../../producer/facade/facade-context.ts';
import { registerOpenAiRoutes } from '../../../../producer/facade/openai/routes.ts';
import type { Preprocessor } from '../../../../producer/preprocess/preprocessor.ts';
import { inferMessage } from '../../../../producer/facade/triton-grpc/infer-message.ts';
import { createServices } from '../../../../producer/service/services.ts';
import { DEFAULT_HTTP_SETTINGS } from '../../../../producer/http/http-settings.ts';
import { Call } from '../../../../shared/infer/call.ts';
import { ModelInferRequestSchema } from '../../../../shared/proto/generated/grpc_service_pb.ts';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import { FakeDispatcher, fakeModel } from '../../../support/fake-dispatcher.ts';
import { testApp } from '../../../support/http-app.ts';
import { tenantsOf } from '../../../support/tenants.ts';

const tenants = tenantsOf({ shop: { key: 'k1', models: ['m'] } });

class WatchedDispatcher extends FakeDispatcher {
  readonly woken: string[] = [];

  override wake(model = ''): undefined {
    this.woken.push(model);
    return undefined;
  }
}

test('a key that does not open a model cannot have it loaded over gRPC', () => {
  const dispatcher = new WatchedDispatcher([fakeModel('m'), fakeModel('other')]);
  const services = createServices({
    dispatcher,
    settings: DEFAULT_HTTP_SETTINGS,
    logger: silentLogger,
    version: '0',
    tenants,
  });
  const refusals: unknown[] = [];
  const ask = (modelName: string) => {
    const bytes = toBinary(ModelInferRequestSchema, create(ModelInferRequestSchema, { modelName }));
    const waiter = {
      tenant: 'shop',
      open: () => new Call('c', 0, Infinity),
      answer: () => undefined,
      refuse: (error: unknown) => void refusals.push(error),
    };
    inferMessage(bytes, 'unary', waiter, services, { maxMessageBytes: 1000 });
  };
  ask('other');
  expect(dispatcher.woken).toEqual([]);
  expect(refusals).toEqual([expect.objectContaining({ code: 'PERMISSION_DENIED' })]);
  expect(tenants.counts().get('shop')?.refused).toBe(1);
  ask('m');
  expect(dispatcher.woken).toEqual(['m']);
});

test('nor over the OpenAI form', async () => {
  const dispatcher = new WatchedDispatcher([fakeModel('m'), fakeModel('other')]);
  const facades: Facade[] = [(scope, context) => registerOpenAiRoutes(scope, context, {} as Preprocessor)]; // not reached
  const app = testApp(dispatcher, {}, { tenants, facades });
  const response = await app.inject({
    method: 'POST',
    url: '/v1/embeddings',
    headers: { 'x-api-key': 'k1' },
    payload: { model: 'other', input: 'hello' },
  });
  expect(response.statusCode).toBe(403);
  expect(dispatcher.woken).toEqual([]);
});
