import { describe, expect, it } from 'vitest';
import { findEnsembleProblems } from '../../../../shared/model/ensemble-problems.ts';
import { ensembleConfig, io, step } from './ensembles.ts';

const IO = `max_batch_size: 8 ${io('input', 'IN', [4])} ${io('output', 'OUT', [4])}`;
const FIRST = step('a', { x: 'IN' }, { y: 'MIDDLE' });
const SECOND = step('b', { x: 'MIDDLE' }, { y: 'OUT' });

function problemsOf(head: string, ...steps: string[]): string[] {
  return findEnsembleProblems(ensembleConfig(head, ...steps));
}

describe('findEnsembleProblems', () => {
  it('finds nothing in a chain, in two branches, and where an output is read by a step too', () => {
    expect(problemsOf(IO, FIRST, SECOND)).toEqual([]);
    const joined = step('c', { l: 'LEFT', r: 'RIGHT' }, { y: 'OUT' });
    expect(
      problemsOf(IO, step('a', { x: 'IN' }, { y: 'LEFT' }), step('b', { x: 'IN' }, { y: 'RIGHT' }), joined),
    ).toEqual([]);
    expect(problemsOf(`${IO} ${io('output', 'MIDDLE', [4])}`, FIRST, SECOND)).toEqual([]);
  });

  it('finds nothing in a config without inputs and outputs, which its steps tell', () => {
    expect(problemsOf('max_batch_size: 8', FIRST, SECOND)).toEqual([]);
  });

  it('does not mind the order in which the steps are written', () => {
    expect(problemsOf(IO, SECOND, FIRST)).toEqual([]);
  });

  it.each<[string, string[], string[]]>([
    ['no step', [], ['ensemble_scheduling: expected one step or more, there is none']],
    ['a step without a model', [step('', { x: 'IN' }, { y: 'OUT' })], ['step 1: model_name is missing']],
    [
      'itself as a step',
      [step('ens', { x: 'IN' }, { y: 'OUT' })],
      ['step 1, model "ens": an ensemble cannot be a step of itself'],
    ],
    [
      'a step without inputs',
      [FIRST, SECOND, step('c', {}, { y: 'MORE' }), step('d', { x: 'MORE' }, { z: 'END' })],
      [
        'step 3, model "c": input_map is missing; a step needs one or more',
        'step 4, model "d", output "z": tensor "END" is read by no step and is no output of the ensemble; leave it out of output_map',
      ],
    ],
    [
      'a step without outputs',
      [FIRST, SECOND, step('c', { x: 'IN' }, {})],
      ['step 3, model "c": output_map is missing; a step needs one or more'],
    ],
    [
      'an empty name',
      [FIRST, SECOND, step('c', { x: '' }, { y: '' })],
      [
        'step 3, model "c": input_map: expected a key and a value, got "x" and ""',
        'step 3, model "c": output_map: expected a key and a value, got "y" and ""',
      ],
    ],
    [
      'a tensor with two writers',
      [FIRST, SECOND, step('c', { x: 'IN' }, { z: 'OUT' })],
      ['tensor "OUT" is written more than once: step 2, model "b", output "y"; step 3, model "c", output "z"'],
    ],
    [
      'a step that writes an input',
      [FIRST, SECOND, step('c', { x: 'MIDDLE' }, { y: 'IN' })],
      ['step 3, model "c", output "y": tensor "IN" is an input of the ensemble, which no step may write'],
    ],
    [
      'an input tensor that is misspelt (G01)',
      [FIRST, step('b', { x: 'MIDLE' }, { y: 'OUT' })],
      [
        'step 1, model "a", output "y": tensor "MIDDLE" is read by no step and is no output of the ensemble; did you mean "MIDLE"?',
        'step 2, model "b", input "x": tensor "MIDLE" is written by no step and is no input of the ensemble; did you mean "MIDDLE"?',
      ],
    ],
    [
      'an output tensor that is misspelt (G01)',
      [FIRST, step('b', { x: 'MIDDLE' }, { y: 'OUTT' })],
      [
        'step 2, model "b", output "y": tensor "OUTT" is read by no step and is no output of the ensemble; did you mean "OUT"?',
        'output "OUT" is written by no step; did you mean "OUTT"?',
      ],
    ],
    [
      'a tensor that nobody makes (G01)',
      [FIRST, step('b', { x: 'MIDDLE', mask: 'ATTENTION_MASK' }, { y: 'OUT' })],
      [
        'step 2, model "b", input "mask": tensor "ATTENTION_MASK" is written by no step and is no input of the ensemble',
      ],
    ],
    [
      'an input that nobody reads',
      [step('a', { x: 'INN' }, { y: 'MIDDLE' }), SECOND],
      [
        'input "IN" is read by no step; did you mean "INN"?',
        'step 1, model "a", input "x": tensor "INN" is written by no step and is no input of the ensemble; did you mean "IN"?',
      ],
    ],
    [
      'steps that wait for each other',
      [
        FIRST,
        step('b', { x: 'MIDDLE', back: 'LATER' }, { y: 'SOON' }),
        step('c', { x: 'SOON' }, { y: 'LATER', z: 'OUT' }),
      ],
      [
        'steps wait for each other: step 2, model "b", needs "LATER" from step 3; step 3, model "c", needs "SOON" from step 2',
      ],
    ],
    [
      'a step that waits for itself, and one behind it',
      [step('a', { x: 'IN', state: 'STATE' }, { y: 'STATE' }), step('b', { x: 'STATE' }, { y: 'OUT' })],
      ['steps wait for each other: step 1, model "a", needs "STATE" from step 1'],
    ],
  ])('tells %s', (_, steps, problems) => {
    expect(problemsOf(IO, ...steps)).toEqual(problems);
  });

  it('tells a version that is missing, which Triton would look for as version 0', () => {
    const missing = FIRST.replace('model_version: -1', '');
    expect(problemsOf(IO, missing, SECOND)).toEqual([
      'step 1, model "a": model_version: expected a version from 1 up, or -1 for the one that the model serves by default, it is 0 or missing',
    ]);
    expect(problemsOf(IO, FIRST.replace('-1', '-2'), SECOND)[0]).toContain('got -2');
    expect(problemsOf(IO, FIRST.replace('-1', '3'), SECOND)).toEqual([]);
  });

  it('tells an output that is an input too', () => {
    expect(problemsOf(`${IO} ${io('output', 'IN', [4])}`, FIRST, SECOND)).toEqual([
      'output "IN" is an input of the ensemble too; an output is what a step writes',
    ]);
  });

  it('refuses what has no meaning for an ensemble', () => {
    const head = `${IO} instance_group { count: 2 } optimization { } model_warmup { name: "w" }`;
    expect(problemsOf(head, FIRST, SECOND).map((problem) => problem.split(' ', 1)[0])).toEqual([
      'instance_group',
      'optimization',
      'model_warmup',
    ]);
    const reshaped = IO.replace('dims: [ 4 ]', 'dims: [ 4 ] reshape { shape: [ 2, 2 ] }');
    expect(problemsOf(reshaped, FIRST, SECOND)[0]).toContain('input "IN": reshape is not for ensembles');
    const named = FIRST.replace('step {', 'step { model_namespace: "n"');
    expect(problemsOf(IO, named, SECOND)).toEqual(['step 1, model "a": model_namespace is not supported yet']);
  });
});
