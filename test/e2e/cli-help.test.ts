import { describe, expect, test } from 'vitest';
import { COMMAND_FLAGS, FLAGS, type CommandName } from '../../cli/flags/catalogue.ts';
import { environmentName, type Flag } from '../../cli/flags/flag.ts';
import { VERSION } from '../../cli/version.ts';
import { type Ended, runMillrace } from '../support/process.ts';

const COMMANDS = Object.keys(COMMAND_FLAGS) as CommandName[];

describe('millrace --help', () => {
  test('names every command and leaves with 0', async () => {
    const { code, stdout, stderr } = await runMillrace(['--help']);
    for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^ +${command} +\\S`, 'm'));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  test('is what is printed without a command, but that is an error', async () => {
    const [help, nothing] = await Promise.all([runMillrace(['help']), runMillrace([])]);
    expect(nothing.stdout).toBe(help.stdout);
    expect(nothing.code).toBe(2);
  });

  test.each(COMMANDS)('of %s shows every option with its value, default and environment variable', async (command) => {
    const { code, stdout } = await runMillrace([command, '--help']);
    expect(code).toBe(0);
    const shown = [...stdout.matchAll(/^ {2}--([a-z-]+)=/gm)].map(([, name]) => name);
    expect(shown).toEqual(COMMAND_FLAGS[command].map((key) => FLAGS[key].name));
    for (const key of COMMAND_FLAGS[command]) {
      const flag: Flag = FLAGS[key];
      const row = stdout
        .slice(stdout.indexOf(`  --${flag.name}=`))
        .split('\n')
        .slice(0, 2)
        .join('\n');
      expect(row).toContain(`--${flag.name}=${flag.value}`);
      expect(row).toContain(flag.help);
      expect(row).toContain(environmentName(flag));
      if (flag.env !== undefined) expect(row).toContain(flag.env);
      if (flag.default !== undefined) expect(row).toContain(`default ${flag.default}`);
      for (const choice of flag.choices ?? []) expect(row).toContain(choice);
    }
  });

  test('--help wins over options that are wrong', async () => {
    const { code, stdout } = await runMillrace(['serve', '--no-such-option', '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain('--model-repository=DIR');
  });

  test('--version prints the version alone', async () => {
    expect(await runMillrace(['--version'])).toMatchObject({ code: 0, stdout: `${VERSION}\n`, stderr: '' });
  });
});

describe('a command line that is wrong', () => {
  test.each([
    { args: ['serv'], says: ['unknown command "serv"', 'did you mean serve?'] },
    { args: ['wroker', '--redis=redis://x'], says: ['unknown command "wroker"', 'did you mean worker?'] },
    { args: ['paint'], says: ['unknown command "paint"', 'millrace --help'] },
    { args: ['serve', '--http-prot=9000'], says: ['unknown option --http-prot', 'did you mean --http-port?'] },
    { args: ['serve', '--model-repo=x'], says: ['unknown option --model-repo', 'did you mean --model-repository?'] },
    { args: ['serve', '--wings'], says: ['unknown option --wings', 'millrace serve --help'] },
    { args: ['serve', '--redis=redis://x'], says: ['--redis is not an option of millrace serve'] },
    { args: ['worker', '--http-port=1'], says: ['--http-port is not an option of millrace worker'] },
    { args: ['producer', '--model-repository=x'], says: ['--model-repository is not an option of millrace producer'] },
    { args: ['serve', 'examples/models'], says: ['unexpected argument "examples/models"'] },
    { args: ['serve', '--http-port'], says: ['--http-port needs a value', '--http-port=PORT'] },
    { args: ['serve', '--http-port=http'], says: ['--http-port expects a whole number', 'from 0 to 65535', '"http"'] },
    { args: ['serve', '--http-port=65536'], says: ['from 0 to 65535', '"65536"'] },
    { args: ['serve', '--exit-timeout-secs=-1'], says: ['of at least 0', '"-1"'] },
    { args: ['serve', '--exit-on-error=perhaps'], says: ['--exit-on-error expects true or false', '"perhaps"'] },
    { args: ['serve', '--onnxruntime-api=java'], says: ['--onnxruntime-api expects one of c, binding', '"java"'] },
    { args: ['serve'], says: ['--model-repository'] },
    { args: ['worker'], says: ['--model-repository'] },
  ])('$args is answered in one line with what is meant, and exit code 2', async ({ args, says }) => {
    const ended = await runMillrace(args);
    for (const text of says) expect(ended.stderr).toContain(text);
    expectOneLine(ended, 2);
  });

  test('a wrong environment variable is named', async () => {
    const ended = await runMillrace(['serve'], { env: { MILLRACE_METRICS_PORT: 'nine' } });
    expect(ended.stderr).toContain('MILLRACE_METRICS_PORT expects a whole number from 0 to 65535, got "nine"');
    expectOneLine(ended, 2);
  });
});

function expectOneLine({ code, stdout, stderr }: Ended, wanted: number): void {
  expect(stderr).toMatch(/^millrace: [^\n]+\n$/);
  expect({ code, stdout }).toEqual({ code: wanted, stdout: '' });
}
