import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { ModelConfigSchema } from '../../../../shared/proto/generated/model_config_pb.ts';
import { findTrafficProblems, trafficRuleOfConfig } from '../../../../shared/traffic/traffic-config.ts';
import { decodeTrafficEntry, encodeTrafficEntry } from '../../../../shared/traffic/traffic-entry.ts';
import { trafficRuleOfJson, trafficRuleToJson } from '../../../../shared/traffic/traffic-json.ts';
import { parseShadow, parseShares } from '../../../../shared/traffic/traffic-rule.ts';

const configWith = (parameters: Record<string, string>) =>
  create(ModelConfigSchema, {
    parameters: Object.fromEntries(Object.entries(parameters).map(([key, stringValue]) => [key, { stringValue }])),
  });

describe('shares as text', () => {
  it('are versions with percents, parted by commas or spaces, ascending by number', () => {
    expect([...parseShares('x', '10=5%, 9=94.995 2=0.005%')]).toEqual([
      ['2', 0.005],
      ['9', 94.995],
      ['10', 5],
    ]);
    expect([...parseShares('x', ' ')]).toEqual([]);
  });

  it.each([
    ['2', /expected VERSION=PERCENT, like 2=5%, got "2"/],
    ['2=x', /got "2=x"/],
    ['2=5', /add up to 5, expected 100/],
    ['1=50 1=50', /version 1 is there twice/],
    ['0=100', /"0" is no version/],
    ['01=100', /"01" is no version/],
    ['1=101', /expected a share from 0 to 100/],
    ['1=99.9999 2=0.0001', /steps of 0.001/],
  ])('refuses %j', (text, message) => {
    expect(() => parseShares('x', text)).toThrow(message);
  });
});

describe('a shadow as text', () => {
  it('is a version, perhaps with a percent', () => {
    expect(parseShadow('x', '2', 0.1)).toEqual({ version: '2', percent: 100, tolerance: 0.1 });
    expect(parseShadow('x', '2=2.5%', 0)).toEqual({ version: '2', percent: 2.5, tolerance: 0 });
  });

  it.each(['v2', '2=', '2=200', '0'])('refuses %j', (text) => {
    expect(() => parseShadow('x', text, 0)).toThrow(/^x: /);
  });
});

describe('a rule in JSON', () => {
  const rule = {
    shares: new Map([
      ['1', 95],
      ['2', 5],
    ]),
    sticky: 'user',
    shadow: { version: '3', percent: 10, tolerance: 0.01 },
    fallback: true,
  };

  it('comes back as it was', () => {
    expect(trafficRuleOfJson(JSON.parse(JSON.stringify(trafficRuleToJson(rule))))).toEqual(rule);
    const entry = { source: 'command', rule, fallen: [{ version: '2', reason: 'it failed', atMs: 5 }] } as const;
    expect(decodeTrafficEntry(encodeTrafficEntry(entry))).toEqual(entry);
  });

  it('may leave out what has a default', () => {
    expect(trafficRuleOfJson({})).toEqual({ shares: new Map(), sticky: '', shadow: undefined, fallback: false });
    expect(trafficRuleOfJson({ shadow: { version: '2' } }).shadow).toEqual({
      version: '2',
      percent: 100,
      tolerance: 0.001,
    });
  });

  it.each([
    [[], /expected an object/],
    [{ share: {} }, /unknown field "share", expected shares/],
    [{ shares: [] }, /shares must be an object/],
    [{ shares: { 1: '100' } }, /share of 1 must be a number/],
    [{ shares: { a: 100 } }, /"a" is no version/],
    [{ sticky: 5 }, /sticky must be a text/],
    [{ fallback: 'yes' }, /fallback must be true or false/],
    [{ shadow: '2' }, /shadow must be an object/],
    [{ shadow: { version: 2 } }, /version of shadow must be a text/],
    [{ shadow: { version: '2', tolerance: -1 } }, /tolerance of 0 or more/],
  ])('refuses %j', (json, message) => {
    expect(() => trafficRuleOfJson(json)).toThrow(message);
  });

  it.each(['', '{}', '{"v":1}', '{"v":1,"source":"x","rule":{},"fallen":[]}', '{"v":2}'])(
    'refuses the entry %j',
    (text) => {
      expect(() => decodeTrafficEntry(text)).toThrow(/broken traffic entry/);
    },
  );
});

describe('a rule in a config', () => {
  it('is read from its parameters', () => {
    expect(trafficRuleOfConfig(configWith({ intra_op_thread_count: '1' }))).toBeUndefined();
    const parameters = {
      traffic: '2=5%,1=95%',
      traffic_sticky: 'user',
      traffic_shadow: '3=10%',
      traffic_shadow_tolerance: '0.01',
      traffic_fallback: 'true',
    };
    expect(trafficRuleOfConfig(configWith(parameters))).toEqual({
      shares: new Map([
        ['1', 95],
        ['2', 5],
      ]),
      sticky: 'user',
      shadow: { version: '3', percent: 10, tolerance: 0.01 },
      fallback: true,
    });
    expect(findTrafficProblems(configWith(parameters))).toEqual([]);
  });

  it.each([
    [{ traffic: '1=50%' }, 'parameter "traffic": the shares add up to 50, expected 100'],
    [{ traffic_shadow: 'x' }, 'parameter "traffic_shadow": expected VERSION or VERSION=PERCENT, got "x"'],
    [{ traffic_fallback: 'maybe' }, 'parameter "traffic_fallback": expected "true" or "false", got "maybe"'],
    [{ traffic_shadow_tolerance: '1' }, 'parameter "traffic_shadow_tolerance" means nothing without "traffic_shadow"'],
    [
      { traffic_shadow: '2', traffic_shadow_tolerance: 'small' },
      'parameter "traffic_shadow": expected a tolerance of 0 or more, got NaN',
    ],
  ])('is refused at load: %j', (parameters, problem) => {
    expect(findTrafficProblems(configWith(parameters))).toEqual([problem]);
  });
});
