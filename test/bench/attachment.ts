import { type Seeded, seeded } from './seeded.ts';

export interface Attachment {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** Of all attachments, the share that is one of a few everybody passes on: a logo, a price list. */
const SHARED_SHARE = 0.25;
const SHARED_POOL = 40;
/** Log-normal sizes of the decoded bytes: with these the whole set has a mean of about 22 kB a message. */
const MEDIAN_BYTES = 11_500;
const SPREAD = 1;
const MIN_BYTES = 4_500;
const MAX_BYTES = 3_000_000;

const KINDS = [
  { weight: 0.4, suffix: 'jpg', contentType: 'image/jpeg', magic: [0xff, 0xd8, 0xff, 0xe0] },
  { weight: 0.15, suffix: 'png', contentType: 'image/png', magic: [0x89, 0x50, 0x4e, 0x47] },
  { weight: 0.25, suffix: 'zip', contentType: 'application/zip', magic: [0x50, 0x4b, 0x03, 0x04] },
  { weight: 0.2, suffix: 'csv', contentType: 'text/csv', magic: [] },
] as const;

/** The attachment of message `index`: one of its own, or one that other messages carry as well. */
export function attachmentFor(seed: number, index: number): Attachment {
  const random = seeded(seed, 'attachment of message', index);
  return random.next() < SHARED_SHARE
    ? makeAttachment(seeded(seed, 'shared attachment', random.below(SHARED_POOL)))
    : makeAttachment(random);
}

function makeAttachment(random: Seeded): Attachment {
  const size = attachmentSize(random);
  let draw = random.next();
  const kind =
    KINDS.find(({ weight }) => {
      draw -= weight;
      return draw < 0;
    }) ?? KINDS[0];
  const bytes =
    kind.suffix === 'csv'
      ? tableOf(random, size)
      : Buffer.concat([Buffer.from(kind.magic), random.bytes(size - kind.magic.length)]);
  const stem = random.bytes(4).toString('hex');
  return { filename: `${stem}.${kind.suffix}`, contentType: kind.contentType, bytes };
}

function attachmentSize(random: Seeded): number {
  // Box-Muller; 1 - next() keeps the logarithm finite.
  const normal =
    Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const size = Math.round(MEDIAN_BYTES * Math.exp(SPREAD * normal));
  return Math.min(MAX_BYTES, Math.max(MIN_BYTES, size));
}

/** Rows that compress about as well as an exported table does. */
function tableOf(random: Seeded, size: number): Buffer {
  const rows: string[] = ['day,item,quantity,price,total\n'];
  for (let length = 0; length < size; ) {
    const quantity = 1 + random.below(40);
    const price = random.below(100_000) / 100;
    const day = `20${10 + random.below(15)}-${String(1 + random.below(12)).padStart(2, '0')}-01`;
    const row = `${day},item-${random.below(5000)},${quantity},${price},${(quantity * price).toFixed(2)}\n`;
    rows.push(row);
    length += row.length;
  }
  return Buffer.from(rows.join('').slice(0, size), 'latin1');
}
