import { createApp } from '../producer/app.ts';
import { encodeJob, type JobDocument } from '../producer/facade/jobs/codec.ts';
import type { Facade } from '../producer/facade/facade-context.ts';
import { registerHuggingFaceRoutes } from '../producer/facade/huggingface/routes.ts';
import { registerOpenAiRoutes } from '../producer/facade/openai/routes.ts';
import { registerOpenApiRoutes } from '../producer/facade/openapi/routes.ts';
import { registerPoolRoutes } from '../producer/facade/pool/routes.ts';
import { createGrpcServer } from '../producer/facade/triton-grpc/server.ts';
import type { Preprocessor } from '../producer/preprocess/preprocessor.ts';
import { isLoopback } from '../producer/http/request-origin.ts';
import { controlRefused, trafficRefused } from '../shared/infer/not-served.ts';
import type { Pool } from '../producer/pool/pool-view.ts';
import { parseRestrictions, type Restrictions } from '../producer/service/restricted-access.ts';
import type { ResponseStore } from '../producer/service/cache/response-store.ts';
import type { SharedLimits } from '../producer/service/limits/limits.ts';
import type { Tenants } from '../producer/service/tenants/tenants.ts';
import { TenantsFile } from '../producer/service/tenants/tenants-file.ts';
import type { JobStore } from '../producer/service/jobs/job-store.ts';
import { MemoryWebhooks } from '../producer/service/webhooks/memory-webhooks.ts';
import type { WebhookSettings } from '../producer/service/webhooks/webhook-policy.ts';
import { WebhookSender } from '../producer/service/webhooks/webhook-sender.ts';
import { createServices, type MeasuredDispatcher, type Services } from '../producer/service/services.ts';
import type { JobRecord } from '../shared/jobs/job.ts';
import type { TrafficMetricsSource } from '../shared/runtime/traffic-metrics.ts';
import type { TrafficStore } from '../shared/traffic/traffic-store.ts';
import type { SwitchableLogger } from '../shared/runtime/logger.ts';
import type { Settings } from './flags/catalogue.ts';
import { grpcSettingsOf } from './grpc-settings.ts';
import { httpSettingsOf } from './http-settings.ts';
import { assertAnyProtocol, listenGrpc, listenHttp } from './listen.ts';
import { logSettingsOf } from './log-settings.ts';
import { VERSION } from './version.ts';
import { webhookSettingsOf } from './webhooks.ts';

type ProtocolSettings = Settings<'producer'> | Settings<'serve'>;

/** Which calls need a header, over each protocol, and whose keys are needed for all of them. */
export interface ProtocolRules {
  readonly http: Restrictions;
  readonly grpc: Restrictions;
  /** Undefined where requests need no key. */
  readonly keys: TenantsFile | undefined;
  /** Undefined where the ends of jobs are told to nobody. */
  readonly webhooks: WebhookSettings | undefined;
}

/** To be called before anything is opened. @throws InferError INVALID_ARGUMENT for options that cannot be served */
export function protocolRulesOf(settings: ProtocolSettings): ProtocolRules {
  assertAnyProtocol(settings);
  return {
    http: parseRestrictions('--http-restricted-api', settings.httpRestrictedApi),
    grpc: parseRestrictions('--grpc-restricted-protocol', settings.grpcRestrictedProtocol),
    keys: settings.apiKeysFile === undefined ? undefined : new TenantsFile(settings.apiKeysFile),
    webhooks: webhookSettingsOf(settings),
  };
}

export interface ProtocolParts {
  /** Neither is closed by the protocols. */
  readonly dispatcher: MeasuredDispatcher;
  /** Nor are these. */
  readonly responseStore: ResponseStore | undefined;
  readonly trafficStore: TrafficStore;
  /** Closed by the protocols; in the memory of this process unless given. */
  readonly jobStore?: JobStore;
  /** The same; counts what is limited. */
  readonly limits?: SharedLimits;
  /** The workers behind the dispatcher. */
  readonly pool: Pool;
  readonly preprocessor: Preprocessor;
  readonly rules: ProtocolRules;
  readonly logger: SwitchableLogger;
  /** What the command serves over HTTP beside the protocols that every command has. */
  readonly facades: readonly Facade[];
}

export interface Protocols {
  /** What it has counted is for the metrics. */
  readonly traffic: TrafficMetricsSource;
  /** The same; undefined where requests need no key. */
  readonly tenants: Tenants | undefined;
  /** Opens the ports. Returns the addresses to show; undefined for a protocol that is switched off. */
  listen(): Promise<{ url: string | undefined; grpcAddress: string | undefined }>;
  /** Answers what is in hand over both protocols and refuses the rest. */
  close(graceMs: number): Promise<void>;
}

/** HTTP and gRPC in front of a dispatcher, as the command line wants them. They do not listen yet. */
export function createProtocols(settings: ProtocolSettings, parts: ProtocolParts): Protocols {
  const { dispatcher, pool, responseStore, trafficStore, jobStore, limits, preprocessor, rules, logger, facades } =
    parts;
  const http = httpSettingsOf(settings);
  const logSettings = logSettingsOf(settings, logger);
  const services = createServices({
    dispatcher,
    responseStore,
    trafficStore,
    jobStore,
    limits,
    tenants: rules.keys?.tenants,
    webhooks: rules.webhooks,
    settings: http,
    logger,
    logSettings,
    version: VERSION,
  });
  const { jobs, clock } = services;
  // Those of a pool are the producer's.
  const webhooks =
    rules.webhooks && !jobStore
      ? new MemoryWebhooks({ jobs, sender: new WebhookSender(rules.webhooks), encode: encodeEnd, clock, logger })
      : undefined;
  const { http: httpRules, grpc: grpcRules } = rules;
  const app = createApp({
    services: withSafeControl(services, settings.httpAddress, httpRules, '--http-restricted-api'),
    settings: http,
    restrictions: httpRules,
    facades: [
      (scope, context) => registerHuggingFaceRoutes(scope, context, preprocessor),
      (scope, context) => registerOpenAiRoutes(scope, context, preprocessor),
      (scope) => registerPoolRoutes(scope, { pool, closed: poolClosed(settings.httpAddress, httpRules) }),
      (scope, context) => registerOpenApiRoutes(scope, context, { preprocessor, restrictions: httpRules }),
      ...facades,
    ],
  });
  const grpc = settings.allowGrpc
    ? createGrpcServer({
        services: withSafeControl(services, settings.grpcAddress, grpcRules, '--grpc-restricted-protocol'),
        settings: grpcSettingsOf(settings),
        restrictions: grpcRules,
      })
    : undefined;
  return {
    traffic: services.traffic,
    tenants: services.tenants,
    async listen() {
      rules.keys?.start(logger);
      webhooks?.start();
      const grpcAddress = grpc && (await listenGrpc(grpc, settings.grpcAddress, settings.grpcPort));
      return { url: await listenHttp(app, settings), grpcAddress };
    },
    async close(graceMs) {
      await Promise.all([app.close(), grpc?.close(graceMs)]);
      rules.keys?.close();
      await webhooks?.close(graceMs);
      await services.jobs.close();
      await limits?.close();
      services.sharedMemory.close();
    },
  };
}

/** What a webhook says of a job: what asking for the job would have. */
export function encodeEnd(record: JobRecord): JobDocument {
  return encodeJob({ record, position: undefined });
}

/** The pool tells of hosts and sends workers away, so beyond this machine it is for those who know a header, or nobody. */
function poolClosed(address: string, rules: Restrictions): string | undefined {
  if (isLoopback(address) || rules.keyOf('pool') !== undefined) return undefined;
  return 'the pool is not shown here: beyond loopback it needs --http-restricted-api=pool:HEADER=VALUE';
}

/** Beyond this machine models are controlled by those who know a header, or by nobody. */
function withSafeControl(services: Services, address: string, rules: Restrictions, option: string): Services {
  if (isLoopback(address) || rules.keyOf('model-repository') !== undefined) return services;
  const why = `beyond loopback it needs ${option}=model-repository:HEADER=VALUE`;
  return {
    ...services,
    control: {
      load: (model) => Promise.reject(controlRefused(model, 'load', why)),
      unload: (model) => Promise.reject(controlRefused(model, 'unload', why)),
    },
    trafficControl: {
      show: (model) => services.trafficControl.show(model),
      set: (model) => Promise.reject(trafficRefused(model, why)),
      clear: (model) => Promise.reject(trafficRefused(model, why)),
    },
  };
}
