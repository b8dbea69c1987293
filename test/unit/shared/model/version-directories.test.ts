import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseModelConfig } from '../../../../shared/model/parse-config.ts';
import {
  chooseVersions,
  compareVersions,
  sortVersionDirectories,
} from '../../../../shared/model/version-directories.ts';

describe('sortVersionDirectories', () => {
  it('takes positive decimal numbers only, by number', () => {
    const junk = ['01', '001', '0', '-1', '1.0', 'v2', 'model', ' 3', '3 ', '٣', '+1', '1e3', '18446744073709551616'];
    expect(sortVersionDirectories(['10', ...junk, '9', '1', 'warmup', 'configs', 'initial_state'])).toEqual({
      versions: ['1', '9', '10'],
      ignored: junk,
    });
  });

  it('takes numbers up to the largest 64-bit integer', () => {
    expect(sortVersionDirectories(['9223372036854775807', '9223372036854775808']).versions).toEqual([
      '9223372036854775807',
    ]);
  });

  it('orders as the numbers do', () => {
    const version = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n });
    fc.assert(
      fc.property(version, version, (a, b) => {
        expect(Math.sign(compareVersions(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });
});

describe('chooseVersions', () => {
  const choose = (text: string, versions = ['1', '9', '10']) =>
    chooseVersions(parseModelConfig(text, 'config.pbtxt').versionPolicy, versions, 'm');

  it.each([
    ['', ['10']],
    ['version_policy { }', ['10']],
    ['version_policy { latest { } }', ['10']],
    ['version_policy { latest { num_versions: 2 } }', ['9', '10']],
    ['version_policy { latest { num_versions: 7 } }', ['1', '9', '10']],
    ['version_policy { all { } }', ['1', '9', '10']],
    ['version_policy { specific { versions: [ 10, 3, 1 ] } }', ['1', '10']],
  ])('%j loads %j', (text, versions) => {
    expect(choose(text)).toEqual(versions);
  });

  it('says which versions there are when the policy leaves none', () => {
    expect(() => choose('version_policy { specific { versions: [ 2, 3 ] } }')).toThrow(
      'model "m": version_policy asks for 2, 3, there is 1, 9, 10',
    );
    expect(() => choose('version_policy { all { } }', [])).toThrow('model "m" has no version folder');
  });
});
