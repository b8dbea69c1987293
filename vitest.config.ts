import { defineConfig } from 'vitest/config';

const project = (name: string, extra: object = {}) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], testTimeout: 20_000, hookTimeout: 60_000, ...extra },
});

export default defineConfig({
  test: {
    projects: [
      project('unit'),
      project('contract'),
      project('integration'),
      project('e2e', { testTimeout: 120_000, hookTimeout: 120_000, fileParallelism: false }),
      project('browser', { testTimeout: 120_000, hookTimeout: 120_000, fileParallelism: false }),
      project('clients', { testTimeout: 300_000, hookTimeout: 600_000, fileParallelism: false }),
      project('gpu', { testTimeout: 180_000, hookTimeout: 900_000, fileParallelism: false }),
      project('chaos', { testTimeout: 180_000, hookTimeout: 120_000, fileParallelism: false }),
    ],
  },
});
