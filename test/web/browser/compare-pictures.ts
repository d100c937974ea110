import type { Browser } from 'playwright-core';

/** A channel of a pixel may differ by this much of 255: edges of letters are smoothed differently. */
const CHANNEL = 24;

/** How two pictures differ; pictures of different size differ in all pixels. */
export interface Difference {
  /** Of all pixels, from 0 to 1. */
  readonly share: number;
  readonly text: string;
}

/** Compares two PNG pixel by pixel, in the browser that has made one of them. */
export async function comparePictures(browser: Browser, a: Buffer, b: Buffer): Promise<Difference> {
  const page = await browser.newPage();
  try {
    return await page.evaluate(
      async ({ pictures, most }) => {
        const drawn = await Promise.all(
          pictures.map(async (base64) => {
            const answer = await fetch(`data:image/png;base64,${base64}`);
            const bitmap = await createImageBitmap(await answer.blob());
            const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
            const context = canvas.getContext('2d');
            if (context === null) throw new Error('this browser draws nothing');
            context.drawImage(bitmap, 0, 0);
            return context.getImageData(0, 0, bitmap.width, bitmap.height);
          }),
        );
        const [one, other] = drawn;
        if (one === undefined || other === undefined)
          throw new RangeError('two pictures are compared');
        const sizes = `${one.width} × ${one.height} and ${other.width} × ${other.height}`;
        if (one.width !== other.width || one.height !== other.height)
          return { share: 1, text: sizes };
        let differing = 0;
        const rows = { first: one.height, last: 0 };
        for (let i = 0; i < one.data.length; i += 4) {
          const by = [0, 1, 2].map((c) =>
            Math.abs((one.data[i + c] ?? 0) - (other.data[i + c] ?? 0)),
          );
          if (Math.max(...by) <= most) continue;
          differing += 1;
          const row = Math.floor(i / 4 / one.width);
          rows.first = Math.min(rows.first, row);
          rows.last = Math.max(rows.last, row);
        }
        const text = `${differing} pixels differ, in the rows ${rows.first} to ${rows.last}`;
        return { share: differing / (one.width * one.height), text };
      },
      { pictures: [a.toString('base64'), b.toString('base64')], most: CHANNEL },
    );
  } finally {
    await page.close();
  }
}
