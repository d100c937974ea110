import { afterAll, expect, test } from 'vitest';
import { pastArchive } from './browser/archives.ts';
import { Served } from './served.ts';

const served = new Served();
afterAll(() => served.close());

const singular = (words: string): string => words.replace(/^(message|pending deletion)s/, '$1');

/** The terms of a closing sentence by their words, such as `stored`. */
function termsOf(sentence: string): Map<string, number> {
  const terms = new Map<string, number>();
  const found = sentence.matchAll(
    /([\d,]+)\s+(messages? at the service|stored|not yet verified|incomplete|pending deletions?|forgotten)/g,
  );
  for (const [, number = '', words = ''] of found)
    terms.set(
      singular(words),
      (terms.get(singular(words)) ?? 0) + Number(number.replaceAll(',', '')),
    );
  return terms;
}

test('the closing sentence of every page is the sum of those of the folders, and so is that of the dashboard', async () => {
  const { data, now } = await pastArchive(60);
  served.now = now;
  await served.start(data);
  const cookie = await served.signIn();
  const textOf = async (address: string, part: RegExp): Promise<string> => {
    const { text } = await served.ask(address, { headers: { cookie } });
    return (part.exec(text)?.[0] ?? '').replaceAll(/<[^>]+>/g, ' ');
  };
  const folders = termsOf(await textOf('/health/folders', /<main[\s\S]*<\/main>/));
  // Moved messages whose bytes the service has not been asked for again.
  expect(folders.get('not yet verified')).toBeGreaterThan(0);
  expect(folders.get('stored')).toBeGreaterThan(0);
  for (const address of ['/mail', '/health', '/files'])
    expect([address, termsOf(await textOf(address, /<footer[\s\S]*<\/footer>/))]).toEqual([
      address,
      folders,
    ]);
  expect(termsOf(await textOf('/dashboard', /<div class="eq">[\s\S]*?<\/div>/))).toEqual(folders);
  expect(served.errors).toEqual([]);
});
