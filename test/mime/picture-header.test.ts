import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  displayableImageType,
  MAX_IMAGE_BYTES,
  readImageHeader,
} from '../../src/mail/image-header.ts';
import { bmp, gif, jpeg, movingPng, png, webp } from '../web/pictures.ts';

test.each([
  ['image/png', png(64, 32), 64, 32],
  ['image/jpeg', jpeg(640, 480), 640, 480],
  ['image/jpeg', jpeg(640, 480, 0xc2), 640, 480],
  // Two bytes too many between its segments, as some programs write.
  [
    'image/jpeg',
    Buffer.concat([jpeg(9, 7).subarray(0, 10), Buffer.from([1, 0]), jpeg(9, 7).subarray(10)]),
    9,
    7,
  ],
  ['image/gif', gif([[0, 0, 8, 8]]), 8, 8],
  ['image/webp', webp('VP8 ', 300, 200), 300, 200],
  ['image/webp', webp('VP8L', 300, 200), 300, 200],
  ['image/webp', webp('VP8X', 300, 200), 300, 200],
  ['image/bmp', bmp(30, -20), 30, 20],
  ['image/bmp', bmp(30, 20, 12), 30, 20],
  ['image/bmp', bmp(30, 20, 124, 3), 30, 20],
])('%s is read of its header', (type, bytes, width, height) => {
  expect(readImageHeader(bytes)).toEqual({ type, width, height, moves: false });
  expect(displayableImageType(bytes)).toBe(type);
});

test.each([
  ['a PNG of ten milliard points', png(100_000, 100_000)],
  ['a PNG without points', png(0, 32)],
  ['a PNG that moves', movingPng()],
  ['a JPEG of four milliard points', jpeg(65_535, 65_535)],
  ['a JPEG whose height comes later', jpeg(640, 0)],
  ['a JPEG without a frame header', jpeg(640, 480, 0xc4)],
  ['a GIF with a frame far outside of its screen', gif([[60_000, 60_000, 5_000, 5_000]])],
  [
    'a GIF that moves',
    gif([
      [0, 0, 8, 8],
      [0, 0, 8, 8],
    ]),
  ],
  ['a GIF without a frame', gif([])],
  ['a WebP of 200 million points', webp('VP8L', 16_384, 16_384)],
  ['a WebP that moves', webp('VP8X', 30, 20, 2)],
  ['a BMP of four milliard points', bmp(65_535, 65_535)],
  ['a BMP of a negative width', bmp(-30, 20)],
  ['a BMP that is a PNG inside', bmp(30, 20, 40, 5)],
  [
    'a text that begins as a BMP',
    Buffer.from('BM is the beginning of a sentence, and of no picture.'),
  ],
  ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>x</script></svg>')],
  ['HTML', Buffer.from('<!doctype html><script>x</script>')],
  ['nothing', Buffer.alloc(0)],
  ['more bytes than are shown', Buffer.concat([png(8, 8), Buffer.alloc(MAX_IMAGE_BYTES)])],
])('%s is not shown', (_, bytes) => {
  expect(displayableImageType(bytes)).toBeUndefined();
});

test('whatever bytes there are, they are read to an end, and no picture has more points than it may', () => {
  const whole = [
    png(64, 32),
    movingPng(),
    jpeg(640, 480),
    gif([[0, 0, 8, 8]]),
    webp('VP8X', 300, 200),
    webp('VP8L', 300, 200),
    bmp(30, 20),
  ];
  const broken = fc
    .tuple(fc.constantFrom(...whole), fc.nat(), fc.array(fc.tuple(fc.nat(), fc.nat(255))))
    .map(([bytes, length, changes]) => {
      const copy = Buffer.from(bytes.subarray(0, length % (bytes.length + 1)));
      for (const [at, value] of changes) if (copy.length > 0) copy[at % copy.length] = value;
      return copy;
    });
  fc.assert(
    fc.property(broken, (bytes) => {
      const header = readImageHeader(bytes);
      if (displayableImageType(bytes) !== undefined)
        expect((header?.width ?? 0) * (header?.height ?? 0)).toBeLessThanOrEqual(24_000_000);
    }),
    { numRuns: 3_000 },
  );
});
