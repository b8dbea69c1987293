import { InferError } from '../../../shared/errors.ts';
import type { Call } from '../../../shared/infer/call.ts';
import { NotServed } from '../../../shared/infer/not-served.ts';
import type { InferFn, ModelCatalog } from '../../../shared/infer/ports.ts';
import type { InferRequest, Parameters } from '../../../shared/infer/request.ts';
import type { InferResponse } from '../../../shared/infer/response.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import { trafficRuleOfConfig } from '../../../shared/traffic/traffic-config.ts';
import type { TrafficRule } from '../../../shared/traffic/traffic-rule.ts';
import type { TrafficStore } from '../../../shared/traffic/traffic-store.ts';
import { noShadowCounts, type ShadowCounts } from './shadow-counts.ts';
import { ShadowRuns } from './shadow-runs.ts';
import { TrafficPlan } from './traffic-plan.ts';

export interface TrafficOptions {
  readonly store: TrafficStore;
  readonly catalog: Pick<ModelCatalog, 'resolve'>;
  /** Runs copies of requests, past everything that is for clients. Ends by the call's deadline itself. */
  readonly shadowInfer: InferFn;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The version that was chosen for a call, before its requests were made. */
interface Choice {
  readonly plan: TrafficPlan;
  readonly version: string;
}

/** Sequences stay on one version as long as the shares stand. */
const SEQUENCE_ID = 'sequence_id';

/**
 * Spreads requests that name no version over the versions of their model, where a rule says so. Without a rule it costs a
 * look into two maps. A version that cannot be called gets nothing, and what it was sent before it went away is answered
 * as if there were no rule.
 */
export class Traffic {
  readonly #options: TrafficOptions;
  readonly #shadows: ShadowRuns;
  readonly #plans = new Map<string, TrafficPlan>();
  readonly #ofConfig = new WeakMap<ReadyModel, { readonly rule: TrafficRule | undefined }>();
  readonly #choices = new WeakMap<Call, Choice>();
  #anyChoice = false;
  readonly #requests = new Map<string, Map<string, { count: number }>>();
  readonly #shadowCounts = new Map<string, Map<string, ShadowCounts>>();

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#shadows = new ShadowRuns(options.shadowInfer, options.clock);
  }

  /** The requests of a model by the version that they were sent to, in this process. */
  requests(): ReadonlyMap<string, ReadonlyMap<string, { readonly count: number }>> {
    return this.#requests;
  }

  /** By model and version. */
  shadows(): ReadonlyMap<string, ReadonlyMap<string, Readonly<ShadowCounts>>> {
    return this.#shadowCounts;
  }

  /** The plan in force; undefined where the version policy decides alone. */
  planOf(model: string): TrafficPlan | undefined {
    const entry = this.#options.store.get(model);
    const rule = entry?.source === 'command' ? entry.rule : this.#ruleOfConfig(model);
    const plan = this.#plans.get(model);
    if (!rule) {
      if (plan) this.#plans.delete(model);
      return undefined;
    }
    if (plan?.rule === rule && plan.entry === entry) return plan;
    const next = new TrafficPlan(rule, entry);
    this.#plans.set(model, next);
    return next;
  }

  /**
   * The version for all requests of a call that will be made for a model, '' where the version policy decides. They name
   * the version then, and count nevertheless.
   */
  choose(model: string, call: Call): string {
    const plan = this.planOf(model);
    const version = plan ? plan.choose('', this.#usable(model)) : '';
    if (plan && version !== '') {
      this.#anyChoice = true;
      this.#choices.set(call, { plan, version });
    }
    return version;
  }

  /** The version for a request that is put aside to be carried later, and counts now; '' where the version policy decides. */
  assign(request: InferRequest): string {
    const { model } = request;
    const plan = this.planOf(model);
    const version = plan ? plan.choose(stickyKey(plan.rule, request), this.#usable(model)) : '';
    if (version !== '') ofVersion(this.#requests, model, version, () => ({ count: 0 })).count += 1;
    return version;
  }

  /** The wrapper of a service. */
  wrap(next: InferFn): InferFn {
    return (request, call) => {
      if (request.version !== '') {
        const choice = this.#anyChoice ? this.#choices.get(call) : undefined;
        if (choice?.version !== request.version) return next(request, call);
        return this.#carry(choice.plan, request, call, next, false);
      }
      const plan = this.planOf(request.model);
      if (!plan) return next(request, call);
      const key = stickyKey(plan.rule, request);
      const version = plan.choose(key, this.#usable(request.model));
      return this.#carry(plan, version === '' ? request : { ...request, version }, call, next, key !== '');
    };
  }

  /** @param keyed a key has chosen the version */
  async #carry(
    plan: TrafficPlan,
    request: InferRequest,
    call: Call,
    next: InferFn,
    keyed: boolean,
  ): Promise<InferResponse> {
    const { model, version } = request;
    if (version !== '') ofVersion(this.#requests, model, version, () => ({ count: 0 })).count += 1;
    const shadow = this.#startShadow(plan, request, call);
    try {
      const response = await next(request, call);
      plan.note(version, false, this.#options.clock.now());
      if (!shadow) return response;
      shadow.served(response);
      return { ...response }; // without `free`: the copy still needs the memory
    } catch (error) {
      shadow?.failed();
      if (error instanceof NotServed && version !== '' && !call.error) {
        const response = await next({ ...request, version: '' }, call);
        return shadow ? { ...response } : response; // as above
      }
      if (countsAsFailure(error, keyed)) this.#noteFailure(plan, model, version);
      throw error;
    }
  }

  #startShadow(plan: TrafficPlan, request: InferRequest, call: Call) {
    const { shadow } = plan.rule;
    if (!shadow || this.#versionOf(request) === shadow.version || !this.#usable(request.model)(shadow.version)) {
      return undefined;
    }
    // A part of a sequence means nothing to the other version.
    if (ownValue(request.parameters, SEQUENCE_ID) !== undefined || !plan.takesShadow()) return undefined;
    const counts = ofVersion(this.#shadowCounts, request.model, shadow.version, noShadowCounts);
    return this.#shadows.start(shadow, request, call, counts);
  }

  #versionOf({ model, version }: InferRequest): string {
    if (version !== '') return version;
    try {
      return this.#options.catalog.resolve(model, '').version;
    } catch {
      return ''; // whoever carries the request says what is wrong
    }
  }

  #noteFailure(plan: TrafficPlan, model: string, version: string): void {
    const { clock, store, logger } = this.#options;
    const reason = plan.note(version, true, clock.now());
    if (reason === undefined || this.#plans.get(model) !== plan) return;
    const before = store.get(model);
    const entry = {
      source: plan.entry?.source ?? 'config',
      rule: plan.rule,
      fallen: [...plan.fallen, { version, reason, atMs: Date.now() }],
    };
    store.replace(model, before, entry).then(
      (done) => {
        if (done) logger.warn({ model, version, reason }, 'version falls back');
      },
      (error: unknown) => logger.error({ model, version, reason, err: error }, 'version could not fall back'),
    );
  }

  #usable(model: string): (version: string) => boolean {
    const { catalog } = this.#options;
    return (version) => {
      try {
        catalog.resolve(model, version);
        return true;
      } catch {
        return false;
      }
    };
  }

  /** The rule of the version that the policy serves. */
  #ruleOfConfig(model: string): TrafficRule | undefined {
    let ready: ReadyModel;
    try {
      ready = this.#options.catalog.resolve(model, '');
    } catch {
      return undefined;
    }
    let known = this.#ofConfig.get(ready);
    if (!known) this.#ofConfig.set(ready, (known = { rule: trafficRuleOfConfig(ready.config) }));
    return known.rule;
  }
}

function stickyKey({ sticky }: TrafficRule, { model, parameters }: InferRequest): string {
  const own = sticky === '' ? undefined : ownValue(parameters, sticky);
  const value = own ?? (ownValue(parameters, SEQUENCE_ID) || undefined); // 0 and '' are no sequence
  return value === undefined || value === '' ? '' : `${model} ${String(value)}`;
}

function ownValue(parameters: Parameters, name: string) {
  return Object.hasOwn(parameters, name) ? parameters[name] : undefined;
}

/**
 * What may be the version's own doing. That a request does not fit may be the client's; where requests are dealt out in
 * turn all versions get those alike, but by its key one client's mistakes would all count against one version.
 */
function countsAsFailure(error: unknown, keyed: boolean): boolean {
  if (error instanceof NotServed) return false;
  const { code } = InferError.from(error);
  if (code === 'INVALID_ARGUMENT') return !keyed;
  return code === 'INTERNAL' || code === 'UNAVAILABLE' || code === 'DEADLINE_EXCEEDED';
}

function ofVersion<T>(counts: Map<string, Map<string, T>>, model: string, version: string, create: () => T): T {
  let versions = counts.get(model);
  if (!versions) counts.set(model, (versions = new Map<string, T>()));
  let known = versions.get(version);
  if (known === undefined) versions.set(version, (known = create()));
  return known;
}
