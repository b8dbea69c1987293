import { create } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, it } from 'vitest';
import { MemoryTrafficStore } from '../../../../../producer/service/traffic/memory-traffic-store.ts';
import { Traffic } from '../../../../../producer/service/traffic/traffic.ts';
import { createTrafficControl } from '../../../../../producer/service/traffic/traffic-control.ts';
import { InferError } from '../../../../../shared/errors.ts';
import { Call } from '../../../../../shared/infer/call.ts';
import { notReady, unknownVersion } from '../../../../../shared/infer/not-served.ts';
import type { InferFn, ModelState } from '../../../../../shared/infer/ports.ts';
import { type InferRequest, NO_PARAMETERS } from '../../../../../shared/infer/request.ts';
import type { ReadyModel } from '../../../../../shared/model/ready-model.ts';
import { ModelConfigSchema } from '../../../../../shared/proto/generated/model_config_pb.ts';
import { trafficRuleOfJson } from '../../../../../shared/traffic/traffic-json.ts';
import { fakeModel, NO_TIME } from '../../../../support/fake-dispatcher.ts';
import { FakeClock } from '../../../worker/engine/support/fake-clock.ts';

let ready: Map<string, ReadyModel>;
let parameters: Record<string, { stringValue: string }>;
let seen: string[];
let answer: (version: string) => number;
let clock: FakeClock;
let store: MemoryTrafficStore;
let traffic: Traffic;
let infer: InferFn;
let warnings: { event: string; fields: object }[];

const models = () => [...ready.values()];
const latest = () => models().at(-1)?.version ?? '';

const dispatch: InferFn = (request: InferRequest, call: Call) => {
  const version = request.version === '' ? latest() : request.version;
  seen.push(version);
  if (call.error) return Promise.reject(call.error);
  try {
    if (!ready.has(version)) throw notReady('m', { state: 'UNAVAILABLE', reason: 'gone' });
    const data = new Uint8Array(new Float32Array([answer(version)]).buffer);
    const outputs = [{ name: 'y', datatype: 'FP32' as const, shape: [1, 1], data }];
    return Promise.resolve({ model: 'm', version, outputs, parameters: NO_PARAMETERS, timings: NO_TIME });
  } catch (error) {
    return Promise.reject(InferError.from(error));
  }
};

const catalog = {
  resolve(_name: string, version: string): ReadyModel {
    const model = ready.get(version === '' ? latest() : version);
    if (!model) throw unknownVersion('m', version);
    return model;
  },
  list: (): ModelState[] => models().map(({ version }) => ({ name: 'm', version, state: 'READY', reason: '' })),
};

function serve(...versions: string[]): void {
  const config = create(ModelConfigSchema, { name: 'm', parameters });
  ready = new Map(versions.map((version) => [version, fakeModel('m', { version, versions, config })]));
}

beforeEach(() => {
  parameters = {};
  serve('1', '2');
  seen = [];
  answer = () => 0;
  clock = new FakeClock();
  warnings = [];
  store = new MemoryTrafficStore();
  const logger = {
    debug() {},
    info() {},
    error() {},
    warn: (fields: object, event: string) => warnings.push({ event, fields }),
  };
  traffic = new Traffic({ store, catalog, shadowInfer: dispatch, clock, logger });
  infer = traffic.wrap(dispatch);
});

const control = () => createTrafficControl(traffic, store, catalog);
const set = (json: object) => control().set('m', trafficRuleOfJson(json));

function ask(more: Partial<InferRequest> = {}, call = new Call('c', 0, Infinity)) {
  return infer({ id: '', model: 'm', version: '', inputs: [], outputs: [], parameters: NO_PARAMETERS, ...more }, call);
}

async function countOf(requests: number, more: (index: number) => Partial<InferRequest> = () => ({})) {
  const counts: Record<string, number> = {};
  for (let i = 0; i < requests; i += 1) {
    const version = await ask(more(i)).then(
      (response) => response.version,
      () => 'failed',
    );
    counts[version] = (counts[version] ?? 0) + 1;
  }
  return counts;
}

/** Lets copies end. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('without a rule', () => {
  it('the version policy decides, and nothing is counted', async () => {
    expect(await countOf(3)).toEqual({ 2: 3 });
    expect(control().show('m')).toMatchObject({ source: 'policy', fallback: false, shadow: null });
    expect(traffic.requests().size).toBe(0);
  });
});

describe('shares', () => {
  it('spread requests that name no version exactly', async () => {
    await set({ shares: { 1: 95, 2: 5 } });
    expect(await countOf(200)).toEqual({ 1: 190, 2: 10 });
    expect(control().show('m').versions).toEqual([
      { version: '1', state: 'READY', share: 95, effective: 95, requests: 190 },
      { version: '2', state: 'READY', share: 5, effective: 5, requests: 10 },
    ]);
  });

  it('leave requests alone that name one', async () => {
    await set({ shares: { 1: 100 } });
    expect((await ask({ version: '2' })).version).toBe('2');
    expect(traffic.requests().size).toBe(0);
  });

  it('of a version that is not ready go to the others', async () => {
    await set({ shares: { 1: 60, 2: 30, 3: 10 } });
    expect(await countOf(90)).toEqual({ 1: 60, 2: 30 });
    serve('1', '3');
    expect(await countOf(70)).toMatchObject({ 1: 60, 3: 10 });
  });

  it('change nothing when no version with a share is ready', async () => {
    await set({ shares: { 8: 50, 9: 50 } });
    expect(await countOf(2)).toEqual({ 2: 2 });
  });

  it('end at once when they are cleared', async () => {
    await set({ shares: { 1: 100 } });
    expect(await countOf(1)).toEqual({ 1: 1 });
    await control().clear('m');
    expect(await countOf(1)).toEqual({ 2: 1 });
    expect(control().show('m').source).toBe('policy');
  });

  it('answer by the policy what its version left unanswered', async () => {
    await set({ shares: { 1: 100 } });
    const gone = ready.get('1')!;
    // It goes away between the choice and the dispatch.
    infer = traffic.wrap((request, call) => {
      ready.delete('1');
      return dispatch(request, call);
    });
    expect((await ask()).version).toBe('2');
    expect(seen).toEqual(['1', '2']);
    ready.set('1', gone);
  });

  it('are the config’s until a command comes, and again when it is cleared', async () => {
    parameters = { traffic: { stringValue: '1=100%' } };
    serve('1', '2');
    expect(await countOf(1)).toEqual({ 1: 1 });
    expect(control().show('m').source).toBe('config');
    await set({ shares: { 2: 100 } });
    expect(await countOf(1)).toEqual({ 2: 1 });
    await control().clear('m');
    expect(await countOf(1)).toEqual({ 1: 1 });
  });
});

describe('sticky requests', () => {
  it('with equal keys get one version, others are spread', async () => {
    await set({ shares: { 1: 50, 2: 50 }, sticky: 'user' });
    const versions = new Set<string>();
    for (let user = 0; user < 40; user += 1) {
      const counts = await countOf(5, () => ({ parameters: { user } }));
      expect(Object.values(counts)).toEqual([5]);
      versions.add(Object.keys(counts)[0]!);
    }
    expect(versions).toEqual(new Set(['1', '2']));
    expect(await countOf(10)).toEqual({ 1: 5, 2: 5 });
  });

  it('are those of a sequence without being asked', async () => {
    await set({ shares: { 1: 50, 2: 50 } });
    for (let id = 1; id < 20; id += 1) {
      expect(Object.values(await countOf(4, () => ({ parameters: { sequence_id: id } })))).toEqual([4]);
    }
    expect(await countOf(10, () => ({ parameters: { sequence_id: 0 } }))).toEqual({ 1: 5, 2: 5 });
  });
});

describe('a version that is chosen for a whole call', () => {
  it('counts for the requests that then name it', async () => {
    await set({ shares: { 1: 100 } });
    const call = new Call('c', 0, Infinity);
    expect(traffic.choose('m', call)).toBe('1');
    await ask({ version: '1' }, call);
    await ask({ version: '1' }, call);
    expect(traffic.requests().get('m')?.get('1')?.count).toBe(2);
    await ask({ version: '1' });
    expect(traffic.requests().get('m')?.get('1')?.count).toBe(2);
  });

  it('is left to the policy without a rule', () => {
    expect(traffic.choose('m', new Call('c', 0, Infinity))).toBe('');
  });
});

describe('a shadow', () => {
  it('gets copies, and what differs is counted and not answered', async () => {
    answer = (version) => (version === '2' ? 0.25 : 0);
    await set({ shares: { 1: 100 }, shadow: { version: '2', tolerance: 0.1 } });
    expect(await countOf(4)).toEqual({ 1: 4 });
    await settle();
    expect(seen.filter((version) => version === '2')).toHaveLength(4);
    expect(control().show('m').shadow).toMatchObject({ same: 0, different: 4, errors: 0, largest_difference: 0.25 });
    await set({ shares: { 1: 100 }, shadow: { version: '2', tolerance: 0.5 } });
    await countOf(3);
    await settle();
    expect(control().show('m').shadow).toMatchObject({ same: 3, different: 4 });
  });

  it('gets a share of the requests', async () => {
    await set({ shares: { 1: 100 }, shadow: { version: '2', percent: 10 } });
    await countOf(100);
    await settle();
    expect(control().show('m').shadow).toMatchObject({ same: 10, skipped: 0 });
  });

  it('costs no request when it fails', async () => {
    answer = (version) => {
      if (version === '2') throw new InferError('INTERNAL', 'it broke');
      return 0;
    };
    await set({ shares: { 1: 100 }, shadow: { version: '2' } });
    expect(await countOf(3)).toEqual({ 1: 3 });
    await settle();
    expect(control().show('m').shadow).toMatchObject({ same: 0, different: 0, errors: 3, shadow_us: null });
  });

  it('is not asked for requests that it serves itself, nor for parts of sequences', async () => {
    await set({ shadow: { version: '2' } });
    await countOf(3);
    await set({ shares: { 1: 100 }, shadow: { version: '2' } });
    await countOf(3, () => ({ parameters: { sequence_id: 7 } }));
    await settle();
    expect(control().show('m').shadow).toMatchObject({ same: 0, skipped: 0 });
  });

  it('gets no more than it can keep up with', async () => {
    const never: InferFn = () => new Promise(() => {});
    traffic = new Traffic({
      store,
      catalog,
      shadowInfer: never,
      clock,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    });
    infer = traffic.wrap(dispatch);
    await set({ shares: { 1: 100 }, shadow: { version: '2' } });
    expect(await countOf(100)).toEqual({ 1: 100 });
    expect(control().show('m').shadow).toMatchObject({ same: 0, skipped: 36 });
  });

  it('keeps the memory of the answer until its copy has ended', async () => {
    class Freeable {
      readonly outputs = [];
      free(): void {}
    }
    await set({ shares: { 1: 100 }, shadow: { version: '2' } });
    infer = traffic.wrap(() => Promise.resolve(new Freeable() as never));
    expect('free' in (await ask())).toBe(false);
    await control().clear('m');
    expect('free' in (await ask())).toBe(true);
  });
});

describe('falling back', () => {
  const failing = (failingVersion: string, every = 1) => {
    let calls = 0;
    answer = (version) => {
      if (version === failingVersion && (calls += 1) % every === 0) throw new InferError('INTERNAL', 'it broke');
      return 0;
    };
  };

  it('takes the share of a new version that fails more than the old', async () => {
    failing('2', 2);
    await set({ shares: { 1: 50, 2: 50 }, fallback: true });
    await countOf(200);
    expect(await countOf(20)).toEqual({ 1: 20 });
    const view = control().show('m');
    expect(view.versions).toMatchObject([
      { version: '1', share: 50, effective: 100 },
      { version: '2', share: 50, effective: 0 },
    ]);
    expect(view.fallen).toMatchObject([
      { version: '2', reason: expect.stringMatching(/requests \d+ failed/) as string },
    ]);
    expect(warnings).toMatchObject([{ event: 'version falls back', fields: { model: 'm', version: '2' } }]);
  });

  it('waits for enough requests', async () => {
    failing('2');
    await set({ shares: { 1: 90, 2: 10 }, fallback: true });
    await countOf(100);
    expect(control().show('m').fallen).toEqual([]);
    await countOf(120);
    expect(control().show('m').fallen).toHaveLength(1);
  });

  it('leaves versions alone that fail alike, and the last one', async () => {
    answer = () => {
      throw new InferError('INTERNAL', 'all of them');
    };
    await set({ shares: { 1: 50, 2: 50 }, fallback: true });
    await countOf(300);
    expect(control().show('m').fallen).toEqual([]);
    await set({ shares: { 2: 100 }, fallback: true });
    await countOf(100);
    expect(control().show('m').fallen).toEqual([]);
  });

  it('never takes the share of an old version', async () => {
    failing('1');
    await set({ shares: { 1: 50, 2: 50 }, fallback: true });
    await countOf(300);
    expect(control().show('m').fallen).toEqual([]);
  });

  it('counts requests that do not fit the new version, unless a key has sent them there', async () => {
    answer = (version) => {
      if (version === '2') throw new InferError('INVALID_ARGUMENT', 'another shape');
      return 0;
    };
    await set({ shares: { 1: 50, 2: 50 }, fallback: true, sticky: 'user' });
    await countOf(300, (index) => ({ parameters: { user: index } }));
    expect(control().show('m').fallen).toEqual([]);
    await countOf(200);
    expect(control().show('m').fallen).toHaveLength(1);
  });

  it.each(['CANCELLED', 'RESOURCE_EXHAUSTED'] as const)('does not count %s', async (code) => {
    answer = (version) => {
      if (version === '2') throw new InferError(code, 'not its own doing');
      return 0;
    };
    await set({ shares: { 1: 50, 2: 50 }, fallback: true });
    await countOf(200);
    expect(control().show('m').fallen).toEqual([]);
  });

  it('happens only where it is wanted', async () => {
    failing('2');
    await set({ shares: { 1: 50, 2: 50 } });
    await countOf(200);
    expect(await countOf(10)).toEqual({ 1: 5, failed: 5 });
  });

  it('holds until a command says otherwise', async () => {
    failing('2');
    await set({ shares: { 1: 50, 2: 50 }, fallback: true });
    await countOf(200);
    answer = () => 0;
    expect(await countOf(10)).toEqual({ 1: 10 });
    await set({ shares: { 1: 50, 2: 50 }, fallback: true });
    expect(await countOf(10)).toEqual({ 1: 5, 2: 5 });
  });

  it('holds for a rule of the config until that is another one', async () => {
    parameters = { traffic: { stringValue: '1=50%,2=50%' }, traffic_fallback: { stringValue: 'true' } };
    serve('1', '2');
    failing('2');
    await countOf(200);
    answer = () => 0;
    expect(await countOf(10)).toEqual({ 1: 10 });
    expect(control().show('m')).toMatchObject({ source: 'config', fallen: [{ version: '2' }] });
    serve('1', '2'); // the same config, loaded again
    expect(await countOf(10)).toEqual({ 1: 10 });
    parameters = { ...parameters, traffic: { stringValue: '1=80%,2=20%' } };
    serve('1', '2');
    expect(await countOf(10)).toEqual({ 1: 8, 2: 2 });
  });
});
