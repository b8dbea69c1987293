import { readFileSync } from 'node:fs';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { launchBrowser, openPage } from '../support/browser.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';

const coffee = new URL('../../examples/photos/coffee.png', import.meta.url).pathname;
const PHOTO_MODEL = 'efficientnet_lite0_int8';

describe('the start page in a browser', () => {
  let server: MillraceProcess;
  let browser: Browser;

  beforeAll(async () => {
    [server, browser] = await Promise.all([
      startMillrace(['serve', '--model-repository=examples/models']),
      launchBrowser(),
    ]);
  });
  afterAll(async () => {
    await browser.close();
    await server.stop();
  });
  afterEach(async () => {
    await Promise.all(browser.contexts().map((context) => context.close()));
  });

  const open = (options?: BrowserContextOptions) => openPage(browser, `${server.url}/`, options);
  const modelButton = (page: Page, name: string) => page.getByRole('button', { name: new RegExp(`^${name}`) });
  const choose = (page: Page, name: string) => modelButton(page, name).click();

  it('shows the models with their state and what they do', async () => {
    const { page, problems } = await open();
    await page.getByText('4 of 4 ready').waitFor();
    for (const [name, task] of [
      [PHOTO_MODEL, 'image-classification'],
      ['minilm', 'feature-extraction'],
      ['magika', 'file-type'],
      ['digits_mlp', 'tensors only'],
    ] as const) {
      const text = await modelButton(page, name).textContent();
      expect(text).toContain('READY');
      expect(text).toContain(`${task} · version 1`);
    }
    expect(await page.title()).toBe('Millrace');
    expect(await page.getByRole('link', { name: 'Queue dashboard' }).isVisible()).toBe(false);
    expect(problems).toEqual([]);
  });

  it('names a dropped photo, says where the time went and gives the same call for a shell', async () => {
    const { page, problems } = await open();
    await choose(page, PHOTO_MODEL);
    await drop(page, coffee, 'coffee.png');
    await page.getByRole('heading', { name: 'Answer' }).waitFor();
    const [first] = await page.locator('#result li').allTextContents();
    expect(first).toMatch(/^espresso\d+\.\d %$/);
    expect(await page.getByAltText('the chosen photo').isVisible()).toBe(true);
    const parts = await page.locator('#legend li').allTextContents();
    expect(parts.map((part) => part.replace(/ [\d.]+ ms$/, ''))).toEqual([
      'preprocessing',
      'waiting',
      'model',
      'rest of the server',
      'network and browser',
    ]);
    expect(await page.locator('#curl').textContent()).toBe(
      `curl --data-binary @coffee.png ${server.url}/models/${PHOTO_MODEL}`,
    );
    expect(problems).toEqual([]);
  });

  it('takes a photo from the file dialog, too', async () => {
    const { page } = await open();
    await choose(page, PHOTO_MODEL);
    await page.locator('#file').setInputFiles(coffee);
    await page.locator('#result li', { hasText: 'espresso' }).waitFor();
  });

  it('says what is wrong with a broken file, and goes on', async () => {
    const { page, problems } = await open();
    await choose(page, PHOTO_MODEL);
    const broken = readFileSync(coffee).subarray(0, 1000);
    await page
      .locator('#file')
      .setInputFiles({ name: "it's <b>broken</b>.png", mimeType: 'image/png', buffer: broken });
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.textContent()).toMatch(/^4\d\d: .*\(request /);
    expect(await page.locator('#curl').textContent()).toContain(`'@it'\\''s <b>broken</b>.png'`);
    expect(problems).toHaveLength(1); // the browser itself reports the status of the answer
    expect(problems[0]).toMatch(/status of 4\d\d/);
    await page.locator('#file').setInputFiles(coffee);
    await page.locator('#result li', { hasText: 'espresso' }).waitFor();
    expect(await alert.isVisible()).toBe(false);
  });

  it('shows the vector of a text, and how near the next one is', async () => {
    const { page, problems } = await open();
    await choose(page, 'minilm');
    await page.getByLabel('Text').fill('a cup of coffee');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('A vector of 384 numbers, length 1.000').waitFor();
    await page.getByLabel('Text').fill('an espresso');
    await page.getByLabel('Text').press('Control+Enter');
    const hint = await page.getByText(/Similarity to the one before/).textContent();
    expect(Number(/-?\d\.\d+/.exec(hint!)![0])).toBeGreaterThan(0.4);
    expect(problems).toEqual([]);
  });

  it('tells the type of any file', async () => {
    const { page, problems } = await open();
    await choose(page, 'magika');
    const program = 'import sys\n\ndef main(argv):\n    print("hello", argv)\n\nmain(sys.argv)\n'.repeat(4);
    await page.locator('#file').setInputFiles({ name: 'x', mimeType: '', buffer: Buffer.from(program) });
    await page.locator('#result li').first().waitFor();
    expect((await page.locator('#result li').allTextContents())[0]).toMatch(/^python/);
    expect(problems).toEqual([]);
  });

  it('runs a model that takes tensors from a request that it prepared', async () => {
    const { page, problems } = await open();
    await choose(page, 'digits_mlp');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('probabilities FP32 [1, 10]').waitFor();
    expect(problems).toEqual([]);
  });

  it('comes back to the model in its address, on a phone in the dark as well', async () => {
    const { page, problems } = await openPage(browser, `${server.url}/#minilm`, {
      viewport: { width: 360, height: 740 },
      colorScheme: 'dark',
    });
    await page.getByRole('heading', { name: 'minilm' }).waitFor();
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByText('A vector of').waitFor();
    const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
    expect(overflow).toBeLessThanOrEqual(0);
    expect(problems).toEqual([]);
  });
});

/** Drops a file as a person would: a real DataTransfer with a real File on the page. */
async function drop(page: Page, path: string, name: string): Promise<void> {
  const base64 = readFileSync(path).toString('base64');
  // As text, because the test itself is compiled without the browser's types.
  const transfer = await page.evaluateHandle(`(() => {
    const bytes = Uint8Array.from(atob('${base64}'), (character) => character.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], '${name}', { type: 'image/png' }));
    return data;
  })()`);
  await page.locator('#drop').dispatchEvent('drop', { dataTransfer: transfer });
}
