import { describe, expect, it } from 'vitest';
import { lingerLeftMs } from '../../../../worker/consumer/linger.ts';

describe('lingerLeftMs', () => {
  it('is a second where nothing comes', () => {
    expect(lingerLeftMs(0, 0, undefined, 3000)).toBe(1000);
    expect(lingerLeftMs(400, 0, undefined, 3000)).toBe(600);
    expect(lingerLeftMs(1000, 0, undefined, 3000)).toBe(0);
  });

  it('begins anew with what comes, and leaves out what came before', () => {
    expect(lingerLeftMs(900, 0, 800, 3000)).toBe(900);
    expect(lingerLeftMs(5000, 5000, 800, 3000)).toBe(1000);
  });

  it('is over in the end, whatever comes', () => {
    expect(lingerLeftMs(2900, 0, 2900, 3000)).toBe(100);
    expect(lingerLeftMs(3000, 0, 3000, 3000)).toBe(0);
    expect(lingerLeftMs(0, 0, undefined, 0)).toBe(0);
  });
});
