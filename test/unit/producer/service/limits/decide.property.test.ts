import fc from 'fast-check';
import { expect, test } from 'vitest';
import { admit, createLimitsState, giveBack, type LimitsState } from '../../../../../producer/service/limits/decide.ts';
import { type Amounts, type Ask, DIMENSIONS } from '../../../../../producer/service/limits/limits.ts';
import { askOf, modelOf, NONE, type Step, stepsArbitrary, tenantOf } from './kit.ts';

/** Plays the steps; `look` is called after each admission. */
function play(steps: readonly Step[], look: (state: LimitsState, ask: Ask) => void): LimitsState {
  let nowUs = 1_000_000;
  const state = createLimitsState(nowUs);
  const inHand: Ask[] = [];
  for (const step of steps) {
    if (step.kind === 'wait') nowUs += step.us;
    else if (step.kind === 'leave') {
      const [ask] = inHand.splice(step.pick % Math.max(1, inHand.length), 1);
      if (ask) giveBack(state, ask, nowUs);
    } else {
      const ask = { ...step.ask };
      if (admit(state, ask, nowUs)) continue;
      inHand.push(ask);
      look(state, ask);
    }
  }
  for (const ask of inHand) giveBack(state, ask, nowUs);
  return state;
}

function expectWithin(counts: Amounts, max: Amounts): void {
  for (const what of DIMENSIONS) if (max[what] > 0) expect(counts[what]).toBeLessThanOrEqual(max[what]);
}

test('nothing is ever above a limit, and everything is given back', () => {
  fc.assert(
    fc.property(stepsArbitrary(), (steps) => {
      const state = play(steps, ({ total, models, tenants }, { pool, model, tenant }) => {
        expectWithin(total, pool);
        expectWithin(models.get(model.name)!, model.max);
        if (tenant) expectWithin(tenants.get(tenant.name)!, tenant.max);
      });
      for (const holder of [state.total, ...state.models.values(), ...state.tenants.values()]) {
        expect([holder.requests, holder.rows, holder.bytes]).toEqual([0, 0, 0]);
      }
    }),
    { numRuns: 300 },
  );
});

test('while the same models are active, none is refused within its share, whatever the others ask for', () => {
  const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 5 });
  const moves = fc.array(fc.tuple(fc.nat(100), fc.boolean()), { maxLength: 300 });
  fc.assert(
    fc.property(weights, fc.integer({ min: 1, max: 40 }), moves, (ofModels, requests, list) => {
      const state = createLimitsState(0);
      const pool = { ...NONE, requests };
      const sum = ofModels.reduce((a, b) => a + b);
      const asks = ofModels.map((weight, index) => askOf({ model: modelOf(`m${index}`, weight), pool }));
      const inHand = asks.map(() => 0);
      // All of them have asked before anybody has more than the others allow.
      for (const ask of asks) if (!admit(state, ask, 0)) giveBack(state, ask, 0);
      for (const [pick, leaves] of list) {
        const index = pick % asks.length;
        const share = Math.floor((requests * ofModels[index]!) / sum);
        if (leaves) {
          if (inHand[index]! === 0) continue;
          giveBack(state, asks[index]!, 0);
          inHand[index]! -= 1;
        } else {
          const refusal = admit(state, asks[index]!, 0);
          if (inHand[index]! < share) expect(refusal).toBeUndefined();
          if (!refusal) inHand[index]! += 1;
        }
      }
    }),
    { numRuns: 300 },
  );
});

test('a model alone may have everything, and lends what another comes to claim', () => {
  const state = createLimitsState(0);
  const pool = { ...NONE, requests: 10 };
  const [a, b] = ['a', 'b'].map((name) => askOf({ model: modelOf(name), pool }));
  for (let i = 0; i < 10; i++) expect(admit(state, a!, 0)).toBeUndefined();
  expect(admit(state, b!, 0)).toMatchObject({ scope: 'pool', what: 'requests', keptFor: undefined, excess: 1 });
  for (let i = 0; i < 3; i++) giveBack(state, a!, 0);
  // Seven are in hand, and the three that are left are kept for b, which has asked.
  expect(admit(state, a!, 0)).toMatchObject({ scope: 'pool', keptFor: 'models', inHand: 7 });
  for (let i = 0; i < 3; i++) expect(admit(state, b!, 0)).toBeUndefined();
});

test('a model that has not asked for ten seconds claims nothing any more', () => {
  const state = createLimitsState(0);
  const pool = { ...NONE, requests: 2 };
  const [a, b] = ['a', 'b'].map((name) => askOf({ model: modelOf(name), pool }));
  admit(state, b!, 0);
  giveBack(state, b!, 0);
  admit(state, a!, 0);
  expect(admit(state, a!, 10_000_000)).toMatchObject({ keptFor: 'models' });
  expect(admit(state, a!, 10_000_001)).toBeUndefined();
});

test('tenants share in the same way, and a rate lets a burst through and then one each interval', () => {
  const state = createLimitsState(0);
  const ask = askOf({ tenant: tenantOf('x', { intervalUs: 1000, burst: 3 }) });
  for (let i = 0; i < 3; i++) expect(admit(state, ask, 0)).toBeUndefined();
  expect(admit(state, ask, 0)).toMatchObject({ scope: 'tenant', what: 'rate', waitUs: 1000 });
  expect(admit(state, ask, 1000)).toBeUndefined();
  expect(admit(state, ask, 1500)).toMatchObject({ what: 'rate', waitUs: 500 });
});
