import { describe, expect, it, test } from 'vitest';
import { API_CATEGORIES, NO_RESTRICTIONS, parseRestrictions } from '../../../../producer/service/restricted-access.ts';
import { InferError } from '../../../../shared/errors.ts';

const OPTION = '--http-restricted-api';

const refusal = (...texts: string[]): string => {
  try {
    parseRestrictions(OPTION, texts);
  } catch (error) {
    if (error instanceof InferError && error.code === 'INVALID_ARGUMENT') return error.message;
    throw error;
  }
  throw new Error('was accepted');
};

const sending =
  (headers: Record<string, string>) =>
  (key: string): string | undefined =>
    headers[key];

describe('parseRestrictions', () => {
  it('gives each category of a rule the same header', () => {
    const restrictions = parseRestrictions(OPTION, ['health,metadata:admin-key=secret', 'inference:other=x']);
    expect(restrictions.keyOf('health')).toBe('admin-key');
    expect(restrictions.keyOf('metadata')).toBe('admin-key');
    expect(restrictions.keyOf('inference')).toBe('other');
    expect(restrictions.keyOf('trace')).toBeUndefined();
  });

  it('knows every category of Triton', () => {
    const restrictions = parseRestrictions(OPTION, [`${API_CATEGORIES.join(',')}:k=v`]);
    for (const category of API_CATEGORIES) expect(restrictions.keyOf(category)).toBe('k');
  });

  it('keeps colons and equal signs of the value', () => {
    const restrictions = parseRestrictions(OPTION, ['health:k=a=b:c']);
    expect(restrictions.allows('health', sending({ k: 'a=b:c' }))).toBe(true);
  });

  it('looks the header up in lower case', () => {
    const restrictions = parseRestrictions(OPTION, ['health:X-Key=Value']);
    expect(restrictions.allows('health', sending({ 'x-key': 'Value' }))).toBe(true);
    expect(restrictions.allows('health', sending({ 'x-key': 'value' }))).toBe(false);
  });

  it.each([
    [['health'], 'has no ":" behind the categories'],
    [['health:key'], 'has no "=" between header and value'],
    [['health:=value'], 'needs a header of letters'],
    [['health:my key=value'], 'needs a header of letters'],
    [['health:key='], 'has no value for header key'],
    [['health:key= value'], 'printable ASCII'],
    [['health:key=geheim-ü'], 'printable ASCII'],
    [[':key=value'], 'unknown category ""'],
    [['helth:key=value'], 'unknown category "helth"'],
    [['helth:key=value'], 'did you mean health?'],
    [['health,health:key=value'], 'health is given twice'],
    [['health:key=value', 'metadata,health:key=value'], 'health is given twice'],
  ])('refuses %j', (texts, message) => {
    expect(refusal(...texts)).toContain(OPTION);
    expect(refusal(...texts)).toContain(message);
  });

  it('shows no secret in a refusal', () => {
    expect(refusal('helth:key=opensesame')).not.toContain('opensesame');
    expect(refusal('health:key=opensesame', 'health:key=opensesame')).not.toContain('opensesame');
  });
});

test('a restricted category opens for the right value alone', () => {
  const restrictions = parseRestrictions(OPTION, ['health:k=secret']);
  for (const headers of [{}, { k: '' }, { k: 'secre' }, { k: 'secrets' }, { other: 'secret' }]) {
    expect(restrictions.allows('health', sending(headers))).toBe(false);
  }
  expect(restrictions.allows('health', sending({ k: 'secret' }))).toBe(true);
  expect(restrictions.allows('metadata', sending({}))).toBe(true);
});

test('without rules everything is open', () => {
  for (const category of API_CATEGORIES) expect(NO_RESTRICTIONS.allows(category, sending({}))).toBe(true);
});
