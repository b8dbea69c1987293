import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { launchBrowser, openPage } from '../support/browser.ts';
import { type MillraceProcess, startMillrace } from '../support/process.ts';

describe('the API page in a browser', () => {
  let server: MillraceProcess;
  let browser: Browser;

  beforeAll(async () => {
    [server, browser] = await Promise.all([
      startMillrace(['serve', '--model-repository=examples/models', '--log-info=false']),
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

  it('shows the models and the calls, from this server alone', async () => {
    const { page, problems } = await openPage(browser, `${server.url}/docs`);
    await page.getByRole('heading', { name: 'Model digits_mlp' }).waitFor();
    expect(await page.title()).toBe('Millrace API');
    for (const name of ['Model minilm', 'Model magika', 'Inference', 'OpenAI', 'Shared memory']) {
      expect(await page.getByRole('heading', { name, exact: false }).first().isVisible()).toBe(true);
    }
    expect(await page.locator('#operations-Inference-modelInfer').isVisible()).toBe(true);
    expect(problems).toEqual([]);
  });

  it('sends the body that it shows, and shows the answer', async () => {
    const { page, problems } = await openPage(browser, `${server.url}/docs`);
    const operation = page.locator('.opblock', { hasText: '/v2/models/digits_mlp/generate' }).first();
    await operation.locator('button.opblock-summary-control').click();
    await operation.getByRole('button', { name: 'Execute' }).click();
    const answer = operation.locator('.live-responses-table');
    await answer.getByText('"probabilities"').first().waitFor();
    expect(await answer.textContent()).toContain('200');
    expect(problems).toEqual([]);
  });

  it('fits a phone', async () => {
    const { page } = await openPage(browser, `${server.url}/docs`, { viewport: { width: 360, height: 740 } });
    await page.getByRole('heading', { name: 'Model digits_mlp' }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    const text = page.locator('.opblock-tag small', { hasText: 'image-classification' }).first();
    expect((await text.boundingBox())?.width).toBeGreaterThan(250);
  });
});
