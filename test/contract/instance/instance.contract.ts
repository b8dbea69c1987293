import type { Backend } from '../../../worker/engine/instance/instance.ts';
import { describeData } from './data.contract.ts';
import { describeModelFiles } from './model-files.contract.ts';
import { describeRefusals } from './refusals.contract.ts';
import { describeRunning } from './running.contract.ts';
import { createWorkbench, type Abilities } from './workbench.ts';

/** The behaviour of the instance port. Every backend passes all of it, save for the abilities that it lacks. */
export function describeInstances(createBackend: () => Backend, abilities: Abilities): void {
  const workbench = createWorkbench(createBackend, abilities);
  describeData(workbench);
  describeRefusals(workbench);
  describeRunning(workbench);
  describeModelFiles(workbench);
}
