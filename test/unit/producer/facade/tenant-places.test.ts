import { describe, expect, it } from 'vitest';
import { TenantPlaces } from '../../../../producer/facade/tenant-places.ts';
import { InferError } from '../../../../shared/errors.ts';

const refusal = (taken: number, tenant: string) => `${taken} taken by ${tenant === '' ? 'all' : tenant}`;
const full = (text: string) => new InferError('RESOURCE_EXHAUSTED', text);

describe('places of tenants', () => {
  it('are so many in all where requests need no key, and free again once given back', () => {
    const places = new TenantPlaces(2, undefined, refusal);
    const giveBack = places.take('');
    places.take('');
    expect(() => places.take('')).toThrow(full('2 taken by all'));
    giveBack();
    giveBack(); // counts once
    places.take('');
    expect(() => places.take('')).toThrow(full('2 taken by all'));
  });

  it('leave each tenant its share', () => {
    const places = new TenantPlaces(4, { shareOf: (name) => (name === 'large' ? 3 : 1) }, refusal);
    for (let i = 0; i < 3; i += 1) places.take('large');
    expect(() => places.take('large')).toThrow(full('3 taken by large'));
    const giveBack = places.take('small');
    expect(() => places.take('small')).toThrow(full('4 taken by all'));
    giveBack();
    places.take('small');
  });
});
