import { describe, expect, test } from 'vitest';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { safeHtml, safePage } from '../../src/mail/safe-page.ts';
import { attached, html, multipart } from '../mime/compose.ts';
import { bmp, gif, jpeg, png, webp } from '../web/pictures.ts';

/** Pictures of a few kilobytes that unpack to gigabytes in a browser. */

const FORMATS = {
  png,
  bmp,
  jpeg,
  gif: (width: number, height: number) => gif([[0, 0, width, height]]),
  webp: (width: number, height: number) => webp('VP8X', width, height),
};
const dataUri = (type: string, bytes: Buffer) =>
  `data:image/${type};base64,${bytes.toString('base64')}`;

async function pageOf(body: string, picture: Buffer, type: string): Promise<string> {
  const part = attached(picture, 'p', `image/${type}`);
  const own = { ...part, headers: { ...part.headers, 'Content-ID': '<p@x>' } };
  const source = multipart('related', [html(body), own]);
  async function* pieces() {
    yield source;
  }
  return (await safePage(pieces(), DEFAULT_LIMITS)).page ?? '';
}

describe.each(Object.entries(FORMATS))('a picture of the format %s', (type, make) => {
  test.each([
    [4000, 6000, true],
    [5000, 5000, false],
    [30_000, 30_000, false],
  ])('of %i by %i points: shown %s', async (width, height, isShown) => {
    const picture = make(width, height);
    expect((await pageOf('<img src="cid:p@x">', picture, type)).includes('src=')).toBe(isShown);
    expect(safeHtml(`<img src="${dataUri(type, picture)}">`).includes('src=')).toBe(isShown);
    // Browsers look at the bytes, whatever the type says.
    expect(safeHtml(`<img src="${dataUri('png', picture)}">`).includes('src=')).toBe(isShown);
  });
});

test('what does not say how large it is, is not shown under a type that does', () => {
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="99999" height="99999"/>');
  const avif = Buffer.from('0000001c66747970617669660000000061766966', 'hex');
  for (const bytes of [svg, avif, Buffer.alloc(0), png(9, 9).subarray(0, 18)])
    for (const type of ['png', 'svg+xml', 'avif', 'webp', 'gif'])
      expect(safeHtml(`<img src="${dataUri(type, bytes)}">`)).not.toContain('src=');
});

test('many pictures are shown up to a sum', () => {
  const large = dataUri('png', png(4000, 6000));
  const small = dataUri('png', png(100, 100));
  const shown = (uri: string, count: number) =>
    [...safeHtml(`<img src="${uri}">`.repeat(count)).matchAll(/src=/g)].length;
  expect(shown(large, 50)).toBe(10);
  expect(shown(small, 500)).toBe(500);
});
