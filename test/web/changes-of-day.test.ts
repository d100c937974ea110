import { afterAll, expect, test } from 'vitest';
import { pastArchive } from './browser/archives.ts';
import { Served } from './served.ts';

const words = (html: string): string => html.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');
const served = new Served();
afterAll(() => served.close());

test('the band says what came and was deleted on the day, and each number is what its link finds', async () => {
  const { data, now } = await pastArchive(30);
  served.now = now;
  await served.start(data);
  const cookie = await served.signIn();
  const get = (address: string) =>
    served.ask(address, { headers: { cookie } }).then(({ text }) => text);
  const found: string[] = [];
  for (const day of ['2026-10-20', '2026-11-05', '2026-11-06']) {
    const page = await get(`/mail?q=asof%3A${day}T01%3A00`);
    const [line = ''] = /<b>On .*?<\/b>/s.exec(page) ?? [];
    expect(words(line)).toMatch(/On \d+ (?:Oct|Nov) 2026: [\d,]+ new\s*, [\d,]+ deleted/);
    const links = line.matchAll(/href="([^"]+)">([\d,]+) (\w+)</g);
    for (const [, href = '', number, what = ''] of links) {
      const all = /<b>([\d,]+)<\/b> message/.exec(await get(href.replaceAll('&amp;', '&')))?.[1];
      expect([href, all]).toEqual([href, number]);
      found.push(what);
    }
  }
  expect(found.sort().join(' ')).toBe('deleted deleted deleted new new new');
  expect(served.errors).toEqual([]);
});
