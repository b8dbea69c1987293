import { accessSync, constants } from 'node:fs';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { chromium } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A real headless Chromium, with a profile of its own; the caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: findChromium(), args: ARGS, headless: true });
}

function findChromium(): string {
  const chosen = process.env.CHROME_PATH;
  const found = (chosen ? [chosen] : PLACES).find(isExecutable);
  if (found === undefined) {
    throw new Error('Chromium was not found: install it (Debian: apt-get install chromium) or set CHROME_PATH');
  }
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A page, with everything that went wrong on it: what its console called an error, exceptions, requests elsewhere. */
export interface WatchedPage {
  readonly page: Page;
  readonly problems: readonly string[];
}

export async function openPage(browser: Browser, url: string, options?: BrowserContextOptions): Promise<WatchedPage> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('request', (request) => {
    if (/^(?:https?|wss?):/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) {
      problems.push(`a request to ${request.url()}`);
    }
  });
  await page.goto(url);
  return { page, problems };
}
