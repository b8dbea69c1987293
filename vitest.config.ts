import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** What tests do is partly waiting, so that two at a time fill even a single core. */
const CORES = Math.max(2, availableParallelism() - 1);

/** Those that start processes: each of them takes more than a core while it starts. */
const FEW = Math.min(4, CORES);

const project = (name: string, groupOrder: number, maxWorkers: number, extra: object = {}) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    // Long, as files share the processors: what waits for something says itself how long.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Kinds one after the other, since vitest wants one number of workers for those that run at once.
    sequence: { groupOrder },
    maxWorkers,
    ...extra,
  },
});

const slow = { testTimeout: 120_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    projects: [
      // No module keeps state, so files may share a process; loading all modules anew for each took two thirds of the time.
      project('unit', 1, CORES, { isolate: false }),
      project('contract', 2, CORES),
      project('integration', 3, CORES),
      project('e2e', 4, FEW, slow),
      // One at a time: what these look at depends on what else the machine does, or they share what they install.
      project('chaos', 5, 1, { testTimeout: 180_000, hookTimeout: 120_000 }),
      project('browser', 6, 1, slow),
      project('clients', 7, 1, { testTimeout: 300_000, hookTimeout: 600_000 }),
      project('gpu', 8, 1, { testTimeout: 180_000, hookTimeout: 900_000 }),
    ],
  },
});
