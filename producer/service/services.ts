import type { ModelStats } from '../../shared/infer/model-stats.ts';
import type { Dispatcher, InferFn, ModelCatalog, ModelControl } from '../../shared/infer/ports.ts';
import { type Clock, systemClock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { TrafficStore } from '../../shared/traffic/traffic-store.ts';
import { Admission, type AdmissionSettings } from './admission.ts';
import type { ResponseStore } from './cache/response-store.ts';
import { createJobRunner, createService } from './inference-service.ts';
import type { JobStore } from './jobs/job-store.ts';
import { Jobs } from './jobs/jobs.ts';
import { MemoryJobStore } from './jobs/memory-job-store.ts';
import { type Amounts, NO_LIMITS, type SharedLimits } from './limits/limits.ts';
import { admitJobs, createGate } from './limits/gate.ts';
import { MemoryLimits } from './limits/memory-limits.ts';
import { DEFAULT_LOG_VALUES, LogSettings } from './log-settings.ts';
import { Pace } from './pace.ts';
import { SharedMemory } from './shared-memory.ts';
import { WebhookPolicy, type WebhookSettings } from './webhooks/webhook-policy.ts';
import type { Tenants } from './tenants/tenants.ts';
import { MemoryTrafficStore } from './traffic/memory-traffic-store.ts';
import { Traffic } from './traffic/traffic.ts';
import { createTrafficControl, type TrafficControl } from './traffic/traffic-control.ts';
import { TraceSettings } from './trace-settings.ts';
import { withDeadline } from './with-deadline.ts';

/** A dispatcher that counts what its clients see. */
export interface MeasuredDispatcher extends Dispatcher {
  /** One for each model version that can be called now or was called before. */
  stats(): Iterable<ModelStats>;
  /** Of a model version that was just called. @throws InferError when it cannot be called any more */
  statsOf(model: string, version: string): ModelStats;
}

/** What every facade works with, whatever its protocol. Made once per process. */
export interface Services {
  readonly catalog: ModelCatalog;
  readonly control: ModelControl;
  /**
   * To be waited for before a model is looked up for a request: has it loaded where models are loaded on demand, at most
   * for as long as a request may take. Undefined, as nearly always, when there is nothing to wait for.
   */
  wake(model: string): Promise<void> | undefined;
  /** Validates against the model's metadata, admits, measures, dispatches. */
  readonly infer: InferFn;
  /** Requests that nobody holds a connection for. The process that made the services closes it. */
  readonly jobs: Jobs;
  /** Chooses versions for requests that name none, where a rule says so. */
  readonly traffic: Traffic;
  readonly trafficControl: TrafficControl;
  /** Whether requests can be carried now; the reason when not. */
  ready(): { ok: true } | { ok: false; reason: string };
  /** The readiness that clients are told: requests can be carried, and (unless it was switched off) all models are ready. */
  serverReady(): boolean;
  /** One for each model version that can be called now or was called before. */
  stats(): Iterable<ModelStats>;
  /** Requests and bytes in hand, of all protocols together. */
  readonly admission: Admission;
  /** Who may send requests; undefined where requests need no key. */
  readonly tenants: Tenants | undefined;
  /** Regions that clients registered. The process that made the services closes it. */
  readonly sharedMemory: SharedMemory;
  readonly traceSettings: TraceSettings;
  readonly logSettings: LogSettings;
  readonly clock: Clock;
  /** How long a request may take from its arrival to its answer, in ms; a gRPC deadline can only shorten it. */
  readonly requestTimeoutMs: number;
  /** Name of the server in its metadata. */
  readonly serverId: string;
  /** Millrace's own version, for server metadata. */
  readonly version: string;
  readonly logger: Logger;
}

export interface ServiceSettings extends AdmissionSettings {
  /** How long a request may take from its arrival to its answer, in ms; a gRPC deadline can only shorten it. */
  readonly requestTimeoutMs: number;
  /** Whether clients may register shared memory: whoever can, can have any such object of this machine read and written. */
  readonly allowClientShm: boolean;
  /** Whether a model that is not ready makes the whole server not ready. */
  readonly strictReadiness: boolean;
  /** Jobs that may be open at one time: in this process, or in the whole pool where its store is. */
  readonly maxOpenJobs: number;
  /** What the whole pool may have in hand; without limits unless given. */
  readonly poolLimits?: Amounts;
  /** Name of the server in its metadata. */
  readonly serverId: string;
}

export interface ServicesOptions {
  /** Not closed by the services. */
  readonly dispatcher: MeasuredDispatcher;
  readonly settings: ServiceSettings;
  readonly logger: Logger;
  readonly version: string;
  /** What the logger writes and how to change it; settings without an effect unless given. */
  readonly logSettings?: LogSettings;
  /** Keeps answers of models with `response_cache`; not closed by the services. None unless given. */
  readonly responseStore?: ResponseStore | undefined;
  /** How requests are spread over versions; that of this process alone unless given. */
  readonly trafficStore?: TrafficStore;
  /** Where jobs are; in the memory of this process unless given. Closed with the jobs. */
  readonly jobStore?: JobStore | undefined;
  /** Counts what is limited; that of this process alone unless given. Not closed by the services. */
  readonly limits?: SharedLimits | undefined;
  /** Who may send requests; unless given everybody may, without a key. */
  readonly tenants?: Tenants | undefined;
  /** Switched off unless given. Whoever made the services sends them. */
  readonly webhooks?: WebhookSettings | undefined;
  readonly clock?: Clock;
}

export function createServices(options: ServicesOptions): Services {
  const { dispatcher, settings, logger, version, clock = systemClock } = options;
  const { responseStore, trafficStore = new MemoryTrafficStore() } = options;
  const { catalog } = dispatcher;
  const { limits = new MemoryLimits(clock), tenants } = options;
  const pace = new Pace(clock);
  const admission = new Admission(settings, pace);
  const shadowInfer = withDeadline(clock, (request, call) => dispatcher.infer(request, call));
  const traffic = new Traffic({ store: trafficStore, catalog, shadowInfer, clock, logger });
  const poolLimits = settings.poolLimits ?? NO_LIMITS;
  const gate = createGate({ limits, pool: poolLimits, catalog, tenants, pace });
  const parts = { dispatcher, admission, pace, gate, tenants, traffic, responseStore, clock };
  const jobStore =
    options.jobStore ??
    new MemoryJobStore({
      infer: createJobRunner(parts),
      clock,
      maxOpen: settings.maxOpenJobs,
      shareOf: tenants && ((name, maxOpen) => tenants.jobsOf(name, maxOpen)),
      bytesOf: tenants && ((name) => tenants.jobBytesOf(name)),
      maxBytes: settings.maxBytesInFlight,
    });
  return {
    catalog,
    control: dispatcher.control,
    wake: (model) => withinMs(dispatcher.wake(model), settings.requestTimeoutMs, clock),
    infer: createService(parts),
    jobs: new Jobs({
      store: jobStore,
      catalog,
      traffic,
      admit: admitJobs(gate, tenants),
      webhooks: new WebhookPolicy(options.webhooks),
      clock,
    }),
    traffic,
    trafficControl: createTrafficControl(traffic, trafficStore, catalog),
    ready: () => dispatcher.ready(),
    serverReady: () => dispatcher.ready().ok && (!settings.strictReadiness || dispatcher.catalog.ready()),
    stats: () => dispatcher.stats(),
    admission,
    tenants,
    sharedMemory: new SharedMemory({ enabled: settings.allowClientShm, admission }),
    traceSettings: new TraceSettings(),
    logSettings: options.logSettings ?? new LogSettings(DEFAULT_LOG_VALUES, () => undefined),
    clock,
    requestTimeoutMs: settings.requestTimeoutMs,
    serverId: settings.serverId,
    version,
    logger,
  };
}

/** Never rejects: what went wrong is seen when the model is looked up. */
function withinMs(work: Promise<void> | undefined, ms: number, clock: Clock): Promise<void> | undefined {
  return (
    work &&
    new Promise((resolve) => {
      const cancelTimer = clock.setTimer(resolve, ms);
      const end = () => {
        cancelTimer();
        resolve();
      };
      work.then(end, end);
    })
  );
}
