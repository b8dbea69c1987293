import { batchParametersOf } from '../../../shared/model/batch-parameters.ts';
import type { ReadyModel } from '../../../shared/model/ready-model.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/logger.ts';
import type { ModelPlan } from '../batch/model-plan.ts';
import type { ModelInstance } from '../instance/instance.ts';
import { testPadding } from './padding-test.ts';

/** How far an answer may move when its request is padded, relative to its size. Sums in another order stay far below. */
const TOLERANCE = 1e-3;

/**
 * The plan as it is where padding is shown to leave answers alone; else one that pads nothing, and a warning with the
 * reason. A wrong declaration must never become wrong answers.
 * @param merges whether rows of different requests may share a run
 */
export async function planPadding(
  plan: ModelPlan,
  merges: boolean,
  { name, version, config }: ReadyModel,
  [instance]: readonly ModelInstance[],
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<ModelPlan> {
  const { padding } = plan;
  if (!padding?.selfTest || !instance) return plan;
  if ((!merges || plan.maxRows < 2) && !padding.roundUp) return plan; // nothing shares a run, which has been said
  const ownTolerance = Object.hasOwn(config.parameters, 'batch_tolerance');
  const tolerance = ownTolerance ? Math.max(TOLERANCE, batchParametersOf(config).tolerance) : TOLERANCE;
  const test = await testPadding(plan, padding, instance, clock, tolerance);
  const fields = { model: name, version };
  if (test.kind === 'fine') {
    logger.debug({ ...fields, difference: test.difference }, 'padding leaves answers as they are');
    return plan;
  }
  const event =
    test.kind === 'broken'
      ? 'padding changes answers and is switched off, requests of different lengths do not share a run'
      : 'padding is not proven and is switched off; if it is right, set padding.self_test to "off"';
  logger.warn({ ...fields, reason: test.reason }, event);
  return { ...plan, padding: { ...padding, active: false } };
}
