import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withoutChromium } from './chromium.ts';
import { type SignedIn, startSignedIn } from './signed-in.ts';

let signedIn: SignedIn;
let server: Server;

/**
 * Names of this machine under which a page of somebody else stands: another site, and the same site on another port,
 * to which a browser sends the cookies of the archive.
 */
const HOSTS = ['localhost', '127.0.0.1'] as const;

describe.skipIf(withoutChromium)('a page of another origin', () => {
  beforeAll(async () => {
    signedIn = await startSignedIn();
    server = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end('<!doctype html><title>Other</title><body>');
    });
    await new Promise<void>((resolve) => server.listen(0, resolve));
  });
  afterAll(async () => {
    server?.close();
    await signedIn?.close();
  });

  const openOther = async (host: (typeof HOSTS)[number]) => {
    const { browser, storageState } = signedIn;
    const own = await browser.newContext({ storageState });
    const page = await own.newPage();
    await page.goto(`http://${host}:${(server.address() as AddressInfo).port}/`);
    return { own, page };
  };

  test.each(HOSTS)('reads nothing, and cannot tell what exists: %s', async (host) => {
    const { web, shown } = signedIn;
    const { own, page } = await openOther(host);
    const guesses = {
      page: ['/mail?q=report', '/mail?q=xyzzyplugh'],
      message: [`/m/${shown.message}`, '/m/0000000000000000'],
      data: [`/api/message?m=${shown.message}`, '/api/message?m=0000000000000000'],
      source: [`/m/${shown.message}/source`, '/m/0000000000000000/source'],
      attachment: [`/m/${shown.attached}/attachments/1`, `/m/${shown.attached}/attachments/999`],
      html: [`/m/${shown.attached}/html`, '/m/0000000000000000/html'],
    };
    for (const [kind, addresses] of Object.entries(guesses)) {
      const learnt: string[] = [];
      for (const address of addresses)
        learnt.push(JSON.stringify(await page.evaluate(probe, web.url + address)));
      const [there, not] = learnt;
      expect([kind, there]).toEqual([kind, not]);
      expect(there).not.toContain('read');
    }
    await own.close();
  });

  test.each(HOSTS)('frames nothing: %s', async (host) => {
    const { web, shown } = signedIn;
    const { own, page } = await openOther(host);
    for (const address of [
      '/mail',
      `/m/${shown.attached}`,
      `/m/${shown.attached}/html`,
      '/enter',
      '/you',
      '/away?to=https://example.org',
    ]) {
      await page.evaluate(
        (src) =>
          new Promise((resolve) => {
            const frame = document.createElement('iframe');
            frame.src = src;
            frame.onload = resolve;
            document.body.replaceChildren(frame);
          }),
        web.url + address,
      );
      // The page of the error comes after the event.
      const shownInFrame = () => [address, page.mainFrame().childFrames()[0]?.url()];
      await expect.poll(shownInFrame).toEqual([address, 'chrome-error://chromewebdata/']);
    }
    await own.close();
  });

  test.each(HOSTS)('changes nothing: %s', async (host) => {
    const { web } = signedIn;
    const { own, page } = await openOther(host);
    await page.evaluate(async (url) => {
      const send = (path: string, init: RequestInit) =>
        fetch(url + path, { method: 'POST', credentials: 'include', ...init }).catch(() => null);
      const form = new URLSearchParams({ token: 'x', id: 'x', code: 'x' });
      for (const path of ['/sign-out', '/you/end', '/api/sign-out', '/enter']) {
        await send(path, { mode: 'no-cors', body: form });
        await send(path, { mode: 'cors', body: form, headers: { 'x-mailkeep': '1' } });
        await send(path, { mode: 'no-cors', body: '{}', keepalive: true });
        navigator.sendBeacon(url + path, form);
      }
    }, web.url);
    for (const path of ['/sign-out', '/you/end', '/enter']) {
      const popup = own.waitForEvent('page');
      await page.evaluate((action) => {
        const form = document.createElement('form');
        Object.assign(form, { method: 'post', action, target: '_blank' });
        document.body.append(form);
        form.submit();
      }, web.url + path);
      const opened = await popup;
      await opened.waitForLoadState();
      expect(opened.url()).toBe(web.url + path);
      expect(await opened.title()).not.toContain('Signed-in browsers');
      await opened.close();
    }
    const still = await own.newPage();
    await still.goto(`${web.url}/mail`);
    expect(new URL(still.url()).pathname).toBe('/mail');
    await own.close();
  });

  test.each(HOSTS)('keeps no hold on a window that it opens: %s', async (host) => {
    const { web, shown } = signedIn;
    const { own, page } = await openOther(host);
    for (const address of ['/mail', `/m/${shown.attached}?view=html`]) {
      const opening = own.waitForEvent('page');
      await page.evaluate((url) => {
        Object.assign(window, { held: window.open(url) });
      }, web.url + address);
      const opened = await opening;
      await opened.waitForURL((url) => url.origin === web.url);
      await opened.waitForLoadState();
      // The browser tells the opener later that the window is out of its reach.
      await page.waitForFunction(() => {
        const { held } = window as Window & { held?: Window };
        return held?.closed === true && held.length === 0;
      });
      expect(await opened.evaluate(() => window.opener === null)).toBe(true);
      await opened.close();
    }
    await own.close();
  });
});

/** Returns what a page of another origin can learn of an address; runs in the browser. */
async function probe(url: string): Promise<Record<string, unknown>> {
  const outcome = async (init: RequestInit): Promise<string> => {
    try {
      const answer = await fetch(url, { credentials: 'include', ...init });
      if (answer.type === 'opaque' || answer.type === 'opaqueredirect') return answer.type;
      return `read ${answer.status}: ${(await answer.text()).slice(0, 40)}`;
    } catch {
      return 'refused';
    }
  };
  const element = (name: 'img' | 'script' | 'link' | 'video', attribute: string): Promise<string> =>
    new Promise((resolve) => {
      const made = document.createElement(name);
      made.addEventListener('load', () => resolve('read'));
      made.addEventListener('loadeddata', () => resolve('read'));
      made.addEventListener('error', () => resolve('refused'));
      if (name === 'link') made.setAttribute('rel', 'stylesheet');
      made.setAttribute(attribute, url);
      document.body.append(made);
    });
  return {
    cors: await outcome({ mode: 'cors' }),
    noCors: await outcome({ mode: 'no-cors' }),
    redirect: await outcome({ mode: 'no-cors', redirect: 'manual' }),
    picture: await element('img', 'src'),
    script: await element('script', 'src'),
    style: await element('link', 'href'),
    video: await element('video', 'src'),
    // Sizes and states of what was asked for.
    timing: performance
      .getEntriesByName(url)
      .map((entry) => entry as PerformanceResourceTiming)
      .map(({ transferSize, decodedBodySize, responseStatus }) => [
        transferSize,
        decodedBodySize,
        responseStatus,
      ]),
  };
}
