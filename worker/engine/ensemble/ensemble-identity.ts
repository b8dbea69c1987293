import { createHash } from 'node:crypto';
import { encodeModelConfig } from '../../../shared/model/config-binary.ts';
import type { ModelConfig } from '../../../shared/proto/generated/model_config_pb.ts';

/** Works out what stands for an ensemble together with the models that its steps run on, which change without it. */
export class EnsembleIdentity {
  readonly #config: Uint8Array;
  #lastSteps = '';
  #last = '';

  constructor(config: ModelConfig) {
    this.#config = encodeModelConfig(config);
  }

  /** @param ofSteps the identities of their models, in the order of the steps; undefined when one of them has none */
  of(ofSteps: readonly (string | undefined)[]): string | undefined {
    if (ofSteps.includes(undefined)) return undefined;
    const steps = ofSteps.join(' ');
    if (steps !== this.#lastSteps) {
      this.#lastSteps = steps;
      this.#last = createHash('sha256').update(this.#config).update(`\0${steps}`).digest('hex');
    }
    return this.#last;
  }
}
