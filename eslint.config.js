import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import importX from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';

// The one direction of imports: cli -> producer -> shared <- worker <- cli.
const zones = [
  { target: './shared', from: ['./producer', './worker', './cli', './client'], message: 'shared imports nobody' },
  { target: './producer', from: ['./worker', './cli', './client'], message: 'producer imports shared only' },
  { target: './client', from: ['./producer', './worker', './cli'], message: 'client imports shared only' },
  { target: './worker', from: ['./producer', './cli', './client'], message: 'worker imports shared only' },
];

export default tseslint.config(
  {
    ignores: [
      '.dist-*/**',
      'dist',
      'node_modules',
      'shared/proto/generated',
      'examples/models',
      '.cache',
      '.venv*',
      'coverage',
    ],
  },
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.strictTypeChecked],
    plugins: { 'import-x': importX },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    settings: { 'import-x/resolver-next': [createTypeScriptImportResolver()] },
    rules: {
      'import-x/no-cycle': 'error',
      'import-x/no-restricted-paths': ['error', { zones, basePath: import.meta.dirname }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-unnecessary-condition': [
        'error',
        { allowConstantLoopConditions: 'only-allowed-literals' },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: { '@typescript-eslint/no-non-null-assertion': 'off' },
  },
);
