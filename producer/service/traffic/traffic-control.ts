import type { ModelCatalog, ModelState } from '../../../shared/infer/ports.ts';
import { compareVersions } from '../../../shared/model/version-directories.ts';
import type { TrafficRule } from '../../../shared/traffic/traffic-rule.ts';
import type { TrafficStore } from '../../../shared/traffic/traffic-store.ts';
import { noShadowCounts } from './shadow-counts.ts';
import type { Traffic } from './traffic.ts';

/** How the requests of a model are spread, as HTTP shows it. Counts are those of this process since its start. */
export interface TrafficView {
  readonly model: string;
  /** Who says so: a command, the model's config, or nobody, so that the version policy decides. */
  readonly source: 'command' | 'config' | 'policy';
  readonly versions: readonly {
    readonly version: string;
    /** '' for a version that is not there. */
    readonly state: ModelState['state'] | '';
    /** As the rule says; null where the version policy decides. */
    readonly share: number | null;
    /** What is left of it after a fall; of a version that is not READY the others get it besides. */
    readonly effective: number | null;
    readonly requests: number;
  }[];
  readonly sticky: string;
  readonly shadow: {
    readonly version: string;
    readonly percent: number;
    readonly tolerance: number;
    readonly same: number;
    readonly different: number;
    readonly errors: number;
    readonly skipped: number;
    /** Mean time of the copies that were answered, and of the requests that they are copies of; null before the first. */
    readonly shadow_us: number | null;
    readonly served_us: number | null;
    /** null where answers had another form. */
    readonly largest_difference: number | null;
  } | null;
  readonly fallback: boolean;
  readonly fallen: readonly { readonly version: string; readonly reason: string; readonly at: string }[];
}

/** Shows and changes how requests are spread. */
export interface TrafficControl {
  show(model: string): TrafficView;
  /** From now on, here at once and in a pool within a second. @throws InferError UNAVAILABLE when it cannot be written. */
  set(model: string, rule: TrafficRule): Promise<void>;
  /** Back to the config's rule, or to the version policy where it has none. @throws as `set` */
  clear(model: string): Promise<void>;
}

export function createTrafficControl(
  traffic: Traffic,
  store: TrafficStore,
  catalog: Pick<ModelCatalog, 'list'>,
): TrafficControl {
  return {
    show: (model) => view(traffic, catalog, model),
    set: (model, rule) => store.set(model, { source: 'command', rule, fallen: [] }),
    clear: (model) => store.clear(model),
  };
}

function view(traffic: Traffic, catalog: Pick<ModelCatalog, 'list'>, model: string): TrafficView {
  const plan = traffic.planOf(model);
  const states = new Map<string, ModelState['state']>();
  for (const { name, version, state } of catalog.list()) {
    if (name === model && version !== undefined) states.set(version, state);
  }
  const requests = traffic.requests().get(model);
  const versions = new Set([...states.keys(), ...(plan?.rule.shares.keys() ?? [])]);
  const ruled = plan !== undefined && plan.rule.shares.size > 0;
  return {
    model,
    source: plan === undefined ? 'policy' : plan.entry?.source === 'command' ? 'command' : 'config',
    versions: [...versions].sort(compareVersions).map((version) => ({
      version,
      state: states.get(version) ?? '',
      share: ruled ? (plan.rule.shares.get(version) ?? 0) : null,
      effective: ruled ? (plan.shares.get(version) ?? 0) : null,
      requests: requests?.get(version)?.count ?? 0,
    })),
    sticky: plan?.rule.sticky ?? '',
    shadow: shadowView(traffic, model),
    fallback: plan?.rule.fallback ?? false,
    fallen: (plan?.fallen ?? []).map(({ version, reason, atMs }) => ({
      version,
      reason,
      at: new Date(atMs).toISOString(),
    })),
  };
}

function shadowView(traffic: Traffic, model: string): TrafficView['shadow'] {
  const rule = traffic.planOf(model)?.rule.shadow;
  if (!rule) return null;
  const counts = traffic.shadows().get(model)?.get(rule.version) ?? noShadowCounts();
  const { same, different, errors, skipped, shadowUs, servedUs, largestDifference } = counts;
  const answered = same + different;
  const mean = (us: number) => (answered === 0 ? null : Math.round(us / answered));
  return {
    ...rule,
    same,
    different,
    errors,
    skipped,
    shadow_us: mean(shadowUs),
    served_us: mean(servedUs),
    largest_difference: largestDifference === -1 ? null : largestDifference,
  };
}
