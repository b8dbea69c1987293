import { equals } from '@bufbuild/protobuf';
import { isEnsemble } from '../../../shared/model/ensemble-graph.ts';
import { ModelConfigSchema } from '../../../shared/proto/generated/model_config_pb.ts';
import { loadEnsemble } from '../ensemble/load-ensemble.ts';
import type { LoadPlan } from '../model-lifecycle.ts';
import type { MemberSource } from '../served-model.ts';
import type { Fingerprint } from './fingerprint.ts';
import { type LoadContext, loadVersion } from './load-version.ts';
import { findModelFiles } from './model-files.ts';
import type { ModelSource } from './read-model-folder.ts';
import type { SharedSessions } from './shared-sessions.ts';
import type { WorkLine } from './work-line.ts';

/** What a load read, or the one that serves now. */
export interface LoadedSource {
  readonly source: ModelSource;
  /** Undefined for a folder that exists for one load only. */
  readonly fingerprint: Fingerprint | undefined;
}

export interface PlanParts {
  readonly now: LoadedSource;
  /** Undefined when nothing serves that could be kept. */
  readonly before: LoadedSource | undefined;
  readonly members: MemberSource;
  readonly context: LoadContext;
  /** How many versions are loaded at once, over all models. */
  readonly loads: WorkLine;
  readonly sessions: SharedSessions;
  readonly dispose: () => Promise<void>;
}

/** How the versions of a source come to serve; those that have not changed are kept. */
export async function planLoad(parts: PlanParts): Promise<LoadPlan> {
  const { now, before, members, context, loads, sessions, dispose } = parts;
  const { source, fingerprint } = now;
  const contextOf = (version: string): LoadContext => {
    return { ...context, backend: sessions.backendFor(fingerprint?.versions.get(version)) };
  };
  const files = await findModelFiles(source.path);
  return {
    versions: source.versions,
    unchanged: (version) => before !== undefined && isUnchanged(version, before, now),
    load: (version, kept) =>
      isEnsemble(source.config)
        ? loadEnsemble(source, version, files, kept.stats, context, members)
        : loads.next(() => loadVersion(source, version, files, kept, contextOf(version))),
    dispose,
  };
}

function isUnchanged(version: string, before: LoadedSource, now: LoadedSource): boolean {
  if (!before.fingerprint || !now.fingerprint || before.source.path !== now.source.path) return false;
  if (before.fingerprint.common !== now.fingerprint.common) return false;
  if (before.fingerprint.versions.get(version) !== now.fingerprint.versions.get(version)) return false;
  return equals(ModelConfigSchema, before.source.config, now.source.config);
}
