// `npm run drills`: every recovery drill in its whole length, with real processes, and one table at the end.
//   node scripts/drills.mjs                  all of them
//   node scripts/drills.mjs Redis            those whose name has it
//   node scripts/drills.mjs --seed=42        the same instants and sizes as the run that printed this seed
//   node scripts/drills.mjs --soak=10m       the soak instead: so long, mixed models, sizes, cancels, jobs and kills
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fail, root } from './install.mjs';

const args = process.argv.slice(2);
const valueOf = (name) => args.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3);
const soak = valueOf('soak');
const seed = valueOf('seed');
const names = args.filter((arg) => !arg.startsWith('--'));
const wrong = args.find((arg) => arg.startsWith('--') && !/^--(?:seed=\d+|soak=\d+m)$/.test(arg));
if (wrong) fail(`${wrong}: expected --seed=NUMBER or --soak=MINUTESm`);

const { status, signal } = spawnSync(
  process.execPath,
  [
    join(root, 'scripts', 'test.mjs'),
    'chaos',
    ...(soak === undefined ? ['drills', 'poison'] : ['soak']),
    ...(names.length > 0 ? ['-t', names.join(' ')] : []),
  ],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      DRILLS: 'whole',
      ...(seed !== undefined && { DRILL_SEED: seed }),
      ...(soak !== undefined && { SOAK_MINUTES: soak.slice(0, -1) }),
    },
  },
);
process.exit(signal ? 1 : (status ?? 1));
