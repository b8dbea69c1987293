import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ensembleConfig, io, step } from '../../../shared/model/ensembles.ts';
import { floats, floatsOf, settle } from '../support/fake-instance.ts';
import { FakeMember, startEnsemble } from './kit.ts';

/** A step that adds up the tensors of earlier steps (0 is the ensemble's input) and adds its own number. */
interface AddingStep {
  readonly from: readonly number[];
}

const graphs: fc.Arbitrary<AddingStep[]> = fc.integer({ min: 1, max: 9 }).chain((count) =>
  fc.tuple(
    ...Array.from({ length: count }, (_, index) =>
      fc.record({
        // The first one reads the input, so that somebody does.
        from: index === 0 ? fc.constant([0]) : fc.uniqueArray(fc.nat(index), { minLength: 1, maxLength: 4 }),
      }),
    ),
  ),
);

it('gives the right data and runs each step that is needed once, whatever the graph and whoever answers first', async () => {
  await fc.assert(
    fc.asyncProperty(
      graphs,
      fc.array(fc.nat(), { minLength: 1, maxLength: 5 }),
      fc.array(fc.nat(1000), { minLength: 1 }),
      fc.constantFrom(0, 1, 2),
      checkGraph,
    ),
    { numRuns: 150 },
  );
});

async function checkGraph(steps: AddingStep[], choice: number[], turns: number[], maxInflight: number): Promise<void> {
  const count = steps.length;
  const read = new Set(steps.flatMap(({ from }) => from));
  // What nobody reads is an output; some of the others are too.
  const outputs = Array.from({ length: count }, (_, i) => i + 1).filter(
    (tensor) => !read.has(tensor) || (choice[tensor % choice.length] ?? 0) % 3 === 0,
  );
  const asked = outputs.filter((_, index) => index === 0 || (choice[index % choice.length] ?? 0) % 2 === 0);
  const members = steps.map((adding, index) => {
    const inputs = adding.from.map((_, i) => io('input', `x${i}`, [1])).join(' ');
    return new FakeMember(`m${index + 1}`, `max_batch_size: 8 ${inputs} ${io('output', 'y', [1])}`);
  });
  const texts = steps.map(({ from }, index) =>
    step(`m${index + 1}`, Object.fromEntries(from.map((tensor, i) => [`x${i}`, `T${tensor}`])), { y: `T${index + 1}` }),
  );
  const head = [io('input', 'T0', [1]), ...outputs.map((tensor) => io('output', `T${tensor}`, [1]))];
  const config = ensembleConfig(
    `max_batch_size: 8 ${head.join(' ')}`,
    `max_inflight_requests: ${maxInflight}`,
    ...texts.toReversed(), // the order of the file does not matter
  );
  const { infer, served } = await startEnsemble(config, members);

  const seeds = [1, 100];
  const requests = seeds.map((seed) =>
    infer([floats('T0', [1, 1], [seed])], { outputs: asked.map((tensor) => `T${tensor}`) }),
  );
  await answerAll(members, turns);

  for (const [index, seed] of seeds.entries()) {
    const values = [seed];
    for (const [i, { from }] of steps.entries())
      values.push(from.reduce((sum, tensor) => sum + values[tensor]!, i + 1));
    const response = await requests[index]!.result;
    expect(response.outputs.map((tensor) => [tensor.name, floatsOf(tensor)[0]])).toEqual(
      asked.map((tensor) => [`T${tensor}`, values[tensor]]),
    );
  }
  const needed = neededSteps(steps, asked);
  expect(members.map(({ held }) => held.length)).toEqual(members.map((_, i) => (needed.has(i + 1) ? seeds.length : 0)));
  expect(members.every(({ pins }) => pins === 0)).toBe(true);
  expect(served.stats.success.count).toBe(seeds.length);
  await served.close(0);
}

/** Answers one request of a member after the other, in an order that `turns` chooses. */
async function answerAll(members: readonly FakeMember[], turns: readonly number[]): Promise<void> {
  const answered = new Set<unknown>();
  for (let turn = 0; ; turn += 1) {
    const waiting = members.flatMap((member, index) =>
      member.held.filter((held) => !answered.has(held)).map((held) => ({ held, own: index + 1 })),
    );
    const chosen = waiting[(turns[turn % turns.length] ?? 0) % Math.max(1, waiting.length)];
    if (!chosen) return;
    answered.add(chosen.held);
    const sum = chosen.held.request.inputs.reduce((total, tensor) => total + floatsOf(tensor)[0]!, chosen.own);
    chosen.held.answer([floats('y', [1, 1], [sum])]);
    await settle();
  }
}

function neededSteps(steps: readonly AddingStep[], asked: readonly number[]): Set<number> {
  const needed = new Set<number>();
  const visit = (tensor: number): void => {
    if (tensor === 0 || needed.has(tensor)) return;
    needed.add(tensor);
    for (const from of steps[tensor - 1]?.from ?? []) visit(from);
  };
  for (const tensor of asked) visit(tensor);
  return needed;
}
