import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { seeded } from './seeded.ts';

/** Decoded bytes of the one attachment of each message: photographs and scans, which do not compress. */
const SIZES = [50_000, 100_000, 200_000, 400_000] as const;
const LINE = 76;
const START_SECONDS = 1_700_000_000;

/**
 * A Maildir of messages that are nearly all attachment, as the bytes of most mailboxes are: what is done for each
 * message weighs less here, and what is done for each byte more.
 */
export function makeHeavyMail(maildir: string, count: number, seed: number): void {
  for (const name of ['cur', 'new', 'tmp']) mkdirSync(join(maildir, name), { recursive: true });
  for (let index = 0; index < count; index += 1) {
    const random = seeded(seed, 'heavy message', index);
    const bytes = random.bytes(SIZES[random.below(SIZES.length)] ?? SIZES[0]);
    const encoded = bytes.toString('base64').replace(new RegExp(`.{${LINE}}`, 'g'), '$&\r\n');
    const seconds = START_SECONDS + index * 60;
    const source = [
      'From: Ada <ada@example.org>',
      'To: bob@example.org',
      `Date: ${new Date(seconds * 1000).toUTCString().replace('GMT', '+0000')}`,
      `Subject: Photograph ${index}`,
      `Message-ID: <heavy.${index}@example.org>`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="b"',
      '',
      '--b',
      'Content-Type: text/plain; charset=us-ascii',
      '',
      `Here is photograph ${index}.`,
      '--b',
      `Content-Type: image/jpeg; name="${index}.jpg"`,
      `Content-Disposition: attachment; filename="${index}.jpg"`,
      'Content-Transfer-Encoding: base64',
      '',
      encoded.trimEnd(),
      '--b--',
      '',
    ].join('\r\n');
    writeFileSync(join(maildir, 'cur', `${seconds}.M${index}.bench:2,S`), source);
  }
}
