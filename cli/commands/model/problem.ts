import { type ConfigField, readConfigFields } from '../../../shared/model/config-fields.ts';
import { positionOf } from '../../../shared/model/config-tokens.ts';
import { fieldOfProblem } from '../../../shared/model/problem-place.ts';

/** Something that is wrong with a model, as `--json` shows it. */
export interface Problem {
  readonly message: string;
  /** The file that is to be changed or replaced. */
  readonly file?: string;
  /** From 1, columns in characters. */
  readonly line?: number;
  readonly column?: number;
  readonly tensor?: {
    readonly kind: 'input' | 'output';
    readonly name: string;
    /** Which of its fields in the config is wrong; absent where the config does not have the tensor. */
    readonly field?: string;
  };
  readonly shapes?: {
    /** As the config writes it. */
    readonly config: readonly number[];
    readonly maxBatchSize: number;
    /** With the batch dimension that max_batch_size puts in front. */
    readonly effective: readonly number[];
    readonly model: readonly number[];
  };
  /** The one change that repairs it. */
  readonly fix?: string;
}

/** Finds the places of problems in the text of one config. */
export class ConfigPlaces {
  readonly #file: string;
  readonly #text: string;
  readonly #fields: readonly ConfigField[];

  /** `text` is '' where there is no config. */
  constructor(file: string, text: string) {
    this.#file = file;
    this.#text = text.replace(/^\uFEFF/, '');
    this.#fields = readConfigFields(this.#text);
  }

  /** The place of the field that a problem begins with, or of the first of `others` that is written down. */
  of(problem: string, ...others: readonly string[]): Pick<Problem, 'file' | 'line' | 'column'> {
    if (this.#text === '') return {};
    for (const path of [problem, ...others]) {
      const field = fieldOfProblem(this.#fields, path);
      if (field) return { file: this.#file, ...positionOf(this.#text, field.start) };
    }
    return { file: this.#file };
  }
}

/** How a repair begins. What else stands behind a semicolon belongs to what is wrong. */
const REPAIR = /^(?:set|add|remove|leave|list|export|it belongs) /;

/** Many texts of the checks end with the repair, behind the last semicolon. */
export function splitFix(text: string): Pick<Problem, 'message' | 'fix'> {
  const at = text.lastIndexOf('; ');
  const tail = text.slice(at + 2);
  const meant = /^did you mean (.*)\?$/s.exec(tail)?.[1];
  if (at === -1 || (meant === undefined && !REPAIR.test(tail))) return { message: text };
  return { message: text.slice(0, at), fix: meant === undefined ? tail : `write ${meant}` };
}
