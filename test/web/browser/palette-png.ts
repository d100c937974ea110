import { crc32, deflateSync } from 'node:zlib';
import type { Browser } from 'playwright-core';

const COLOURS = 256;
const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

/**
 * Returns a PNG with at most 256 colours: the most frequent ones of the picture, which is a third of its bytes where
 * it shows text on a few grounds.
 *
 * @param browser decodes the picture
 */
export async function palettePng(browser: Browser, picture: Buffer): Promise<Buffer> {
  const { width, height, base64 } = await pixelsOf(browser, picture);
  const pixels = Buffer.from(base64, 'base64');
  const counts = new Map<number, number>();
  for (let i = 0; i < pixels.length; i += 4) {
    const colour = pixels.readUIntBE(i, 3);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = [...counts].sort(([, a], [, b]) => b - a).slice(0, COLOURS);
  const colours = palette.map(([colour]) => colour);
  const indices = new Map(colours.map((colour, i) => [colour, i]));
  // One byte before each row says that its pixels are written as they are.
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1) {
      const colour = pixels.readUIntBE((y * width + x) * 4, 3);
      let index = indices.get(colour);
      if (index === undefined) {
        index = nearest(colour, colours);
        indices.set(colour, index);
      }
      rows[y * (width + 1) + 1 + x] = index;
    }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Eight bits a pixel, each of them a place in the palette.
  header.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(colours.flatMap(channels))),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Decodes a picture, in a page of its own. */
async function pixelsOf(browser: Browser, picture: Buffer) {
  const page = await browser.newPage();
  try {
    return await page.evaluate(async (source) => {
      const answer = await fetch(`data:image/png;base64,${source}`);
      const { width, height, data } = await createImageBitmap(await answer.blob()).then(
        (bitmap) => {
          const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
          const context = canvas.getContext('2d');
          context?.drawImage(bitmap, 0, 0);
          const all = context?.getImageData(0, 0, bitmap.width, bitmap.height);
          if (all === undefined) throw new Error('this browser draws nothing');
          return all;
        },
      );
      let text = '';
      const piece = 30_000;
      for (let i = 0; i < data.length; i += piece)
        text += String.fromCharCode(...data.subarray(i, i + piece));
      return { width, height, base64: btoa(text) };
    }, picture.toString('base64'));
  } finally {
    await page.close();
  }
}

function channels(colour: number): [number, number, number] {
  return [colour >> 16, (colour >> 8) & 255, colour & 255];
}

/** Returns the place of the colour that is most like another one. */
function nearest(colour: number, colours: readonly number[]): number {
  const [red, green, blue] = channels(colour);
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  for (const [i, other] of colours.entries()) {
    const [r, g, b] = channels(other);
    const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}

function chunk(type: string, content: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), content]);
  const around = Buffer.alloc(8);
  around.writeUInt32BE(content.length, 0);
  around.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([around.subarray(0, 4), body, around.subarray(4)]);
}
