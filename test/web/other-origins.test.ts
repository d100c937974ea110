import { afterAll, beforeAll, expect, test } from 'vitest';
import { archiveOf, letter, Served } from './served.ts';

const served = new Served();
beforeAll(async () => {
  await served.start(await archiveOf({ ferry: letter('Ferry', 'When does it leave?') }));
});
afterAll(() => served.close());

const NAVIGATION = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

test('what pages of other origins load is refused, whether or not it exists', async () => {
  const cookie = await served.signIn();
  const asset = /"(\/assets\/[^"]+)"/.exec((await served.ask('/enter')).text)?.[1] ?? '';
  for (const site of ['cross-site', 'same-site'])
    for (const [mode, dest] of [
      ['no-cors', 'image'],
      ['no-cors', 'script'],
      ['no-cors', 'empty'],
      ['cors', 'empty'],
      ['navigate', 'iframe'],
      ['navigate', 'object'],
      ['navigate', 'embed'],
    ] as const)
      for (const address of [
        '/mail',
        '/nothing',
        '/enter',
        '/you',
        asset,
        '/away?to=x',
        '/m/00000/html',
      ])
        for (const method of ['GET', 'HEAD']) {
          const headers = {
            ...{ cookie, 'sec-fetch-site': site },
            ...{ 'sec-fetch-mode': mode, 'sec-fetch-dest': dest },
          };
          const answer = await served.ask(address, { method, headers });
          expect([address, mode, dest, answer.status, answer.text]).toEqual([
            address,
            mode,
            dest,
            403,
            '',
          ]);
          expect(answer.headers['set-cookie']).toBeUndefined();
        }
});

test('a link elsewhere brings no session, also where the browser sends its cookie', async () => {
  const cookie = await served.signIn();
  const open = (address: string, site: string) =>
    served.ask(address, { headers: { cookie, 'sec-fetch-site': site, ...NAVIGATION } });
  for (const site of ['cross-site', 'same-site']) {
    for (const address of ['/mail', '/you', '/m/00000', '/nothing']) {
      const answer = await open(address, site);
      expect([site, answer.status, answer.headers.location]).toEqual([site, 303, '/enter']);
    }
    expect((await open('/enter', site)).status).toBe(200);
    expect((await open('/away?to=https://example.org/', site)).status).toBe(200);
  }
  // A bookmark, a terminal, a mail program, and our own pages.
  for (const site of ['none', 'same-origin']) expect((await open('/you', site)).status).toBe(200);
});
