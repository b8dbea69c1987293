import { InferError } from '../../../shared/errors.ts';
import type { ModelStats } from '../../../shared/infer/model-stats.ts';
import { createReadyModel, labelsKey } from '../../../shared/model/create-ready-model.ts';
import { type EnsembleGraph, parseEnsembleGraph } from '../../../shared/model/ensemble-graph.ts';
import { findMemberMisfits } from '../../../shared/model/ensemble-members.ts';
import { prepareEnsembleConfig } from '../../../shared/model/prepare-config.ts';
import type { ModelFiles, ReadyModel } from '../../../shared/model/ready-model.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';
import type { LoadContext } from '../repository/load-version.ts';
import { readLabels } from '../repository/read-labels.ts';
import type { ModelSource } from '../repository/read-model-folder.ts';
import type { MemberSource, ServedModel } from '../served-model.ts';
import { serveModel } from '../served-model.ts';
import { EnsembleIdentity } from './ensemble-identity.ts';
import { EnsembleScheduler } from './ensemble-scheduler.ts';
import { findMembers, listMembers, modelsOfSteps } from './find-members.ts';

/**
 * Loads a version of an ensemble, whose members serve already and are asked for anew with each request.
 * @throws InferError with the reason why it cannot be served: a member that does not serve or does not fit.
 */
export async function loadEnsemble(
  source: ModelSource,
  version: string,
  files: ModelFiles,
  stats: ModelStats,
  context: Pick<LoadContext, 'clock' | 'deadlines' | 'maxQueueSize' | 'autoComplete' | 'identities'>,
  members: MemberSource,
): Promise<ServedModel> {
  const startedMs = context.clock.now();
  const written = parseEnsembleGraph(source.config);
  const list = listMembers(written);
  const models = modelsOfSteps(list, findMembers(source.name, list, members));
  const config = prepareEnsembleConfig(source.config, models, context.autoComplete);
  const graph = parseEnsembleGraph(config);
  const labels = new Map([...stepLabels(config, graph, models), ...(await readLabels(config, source.path))]);
  const identity = context.identities && config.responseCache?.enable ? identityNow(config, models) : undefined;
  const ready = createReadyModel({ config, version, versions: source.versions, labels, files, identity });
  const scheduler = new EnsembleScheduler({ ...context, ready, graph, members, stats });
  stats.loadSeconds = (context.clock.now() - startedMs) / 1000;
  return serveModel({ ready, scheduler, stats, clock: context.clock, release: () => Promise.resolve() });
}

/**
 * What does not fit between an ensemble that serves and its members as they are now, after one of them has changed: one
 * text for each problem, none when all is well. `config` is that of the ready model.
 */
export function checkMembers(config: ModelConfig, members: MemberSource): string[] {
  const graph = parseEnsembleGraph(config);
  const list = listMembers(graph);
  try {
    return findMemberMisfits(config, graph, modelsOfSteps(list, findMembers(config.name, list, members)));
  } catch (error) {
    return [InferError.from(error).message]; // a member that does not serve
  }
}

/**
 * The identity that an ensemble has over the members that serve now; undefined for one without. `config` is that of the
 * ready model.
 */
export function identityOver(ready: ReadyModel, members: MemberSource): string | undefined {
  if (ready.identity === undefined) return undefined;
  const list = listMembers(parseEnsembleGraph(ready.config));
  try {
    return identityNow(ready.config, modelsOfSteps(list, findMembers(ready.name, list, members)));
  } catch {
    return undefined; // a member that does not serve
  }
}

function identityNow(config: ModelConfig, models: readonly ReadyModel[]): string | undefined {
  return new EnsembleIdentity(config).of(models.map(({ identity }) => identity));
}

/** An output without a label file has the labels that the step's model has for it. */
function stepLabels(config: ModelConfig, graph: EnsembleGraph, models: readonly ReadyModel[]) {
  const labels = new Map<string, readonly string[]>();
  for (const output of config.output) {
    const writer = graph.tensors.get(output.name)?.writers[0];
    const spec = writer && models[writer.step.index]?.outputs.find(({ name }) => name === writer.name);
    if (output.labelFilename === '' && spec && spec.labels.length > 0) labels.set(labelsKey(output), spec.labels);
  }
  return labels;
}
