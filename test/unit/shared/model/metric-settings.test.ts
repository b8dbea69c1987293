import { describe, expect, it } from 'vitest';
import { findMetricProblems, firstResponseBoundsOf, metricTagsOf } from '../../../../shared/model/metric-settings.ts';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';

const FAMILY = 'nv_inference_first_response_histogram_ms';

function parse(text: string) {
  return parseModelConfig(text, 'config.pbtxt');
}

function control(family: string, options: string): string {
  return `model_metrics { metric_control { metric_identifier { family: "${family}" } ${options} } }`;
}

describe('metric_tags', () => {
  it('become labels with _ before their names, in the order of the names', () => {
    const config = parse('metric_tags [ { key: "team" value: "a\\"b" }, { key: "Stage" value: "" } ]');
    expect(findMetricProblems(config)).toEqual([]);
    expect(Object.entries(metricTagsOf(config))).toEqual([
      ['_Stage', ''],
      ['_team', 'a"b'],
    ]);
  });

  it.each(['', '_x', 'a-b', 'a b', 'ä'])('refuse %j, which is no label of Prometheus', (key) => {
    expect(findMetricProblems(parse(`metric_tags { key: "${key}" value: "v" }`))).toEqual([
      expect.stringMatching(/^metric_tags: expected a name of letters, digits and _/),
    ]);
  });
});

describe('model_metrics', () => {
  it('sets the bounds of the one histogram', () => {
    const config = parse(control(FAMILY, 'histogram_options { buckets: [ 0.5, 10, 200 ] }'));
    expect(findMetricProblems(config)).toEqual([]);
    expect(firstResponseBoundsOf(config)).toEqual([0.5, 10, 200]);
    expect(firstResponseBoundsOf(parse(''))).toEqual([100, 500, 2000, 5000]);
  });

  it.each([
    [
      control('nv_inference_count', 'histogram_options { buckets: 1 }'),
      `expected the family ${FAMILY}, got "nv_inference_count"`,
    ],
    [control(`${FAMILY}x`, 'histogram_options { buckets: 1 }'), `did you mean "${FAMILY}"?`],
    ['model_metrics { metric_control { histogram_options { buckets: 1 } } }', 'got ""'],
    [control(FAMILY, ''), 'histogram_options is missing'],
    [control(FAMILY, 'histogram_options { }'), 'expected at least one bound'],
    [control(FAMILY, 'histogram_options { buckets: [ 5, 5 ] }'), 'expected rising bounds above 0, in ms, got 5, 5'],
    [control(FAMILY, 'histogram_options { buckets: [ 0 ] }'), 'got 0'],
    [control(FAMILY, 'histogram_options { buckets: [ 1, inf ] }'), 'got 1, Infinity'],
    [
      control(FAMILY, `histogram_options { buckets: [ ${Array.from({ length: 101 }, (_, i) => i + 1).join(', ')} ] }`),
      'at most 100, got 101',
    ],
  ])('refuses %s', (text, problem) => {
    expect(findMetricProblems(parse(text))).toEqual([expect.stringContaining(problem)]);
  });

  it('refuses a family that is listed twice', () => {
    const one = `metric_control { metric_identifier { family: "${FAMILY}" } histogram_options { buckets: 1 } }`;
    expect(findMetricProblems(parse(`model_metrics { ${one} ${one} }`))).toEqual([
      `model_metrics: "${FAMILY}" is listed twice`,
    ]);
  });
});
