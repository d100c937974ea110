import { pdf } from '../attachments/documents.ts';
import { everything } from './everything.ts';

/** No two begin alike: the index stores words without what they share with the one before. */
export const WORDS = {
  subject: 'quvexomarsubject',
  sender: 'wizzlefrom',
  recipient: 'yammerto',
  body: 'jixolabbody',
  attachment: 'kuntrapdfword',
  name: 'hobnameword',
};

const SHARED = pdf([`zebrasharedword ${'x'.repeat(40_000)}`]);

/** A message with all of them, and another that shares an attachment with it. */
export const secret = mail('quvexomarsubject', [
  { name: 'hobnameword.pdf', bytes: pdf([`the kuntrapdfword stands ${'y'.repeat(40_000)}`]) },
  { name: 'shared.pdf', bytes: SHARED },
]);
export const other = mail('another letter', [{ name: 'shared.pdf', bytes: SHARED }], 'nobody');

function mail(
  subject: string,
  attachments: readonly { readonly name: string; readonly bytes: Buffer }[],
  from = 'wizzlefrom',
): Buffer {
  const isSecret = from === 'wizzlefrom';
  const parts = attachments.flatMap(({ name, bytes }) => [
    '--b',
    `Content-Type: application/pdf; name="${name}"`,
    `Content-Disposition: attachment; filename="${name}"`,
    'Content-Transfer-Encoding: base64',
    '',
    (bytes.toString('base64').match(/.{1,76}/g) ?? []).join('\r\n'),
  ]);
  return Buffer.from(
    [
      `From: ${from} <${from}@example.org>`,
      `To: ${isSecret ? 'yammerto' : 'someone'} <x@example.org>`,
      `Subject: ${subject}`,
      'Date: Tue, 03 Feb 2026 04:05:06 +0000',
      `Message-ID: <${from}@example.org>`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="b"',
      '',
      '--b',
      'Content-Type: text/plain; charset=utf-8',
      '',
      isSecret ? 'The jixolabbody is told to nobody.' : 'Nothing to see.',
      ...parts,
      '--b--',
      '',
    ].join('\r\n'),
  );
}

/** Which of its words stand in any file below a data directory. */
export function wordsIn(dir: string): string[] {
  const all = everything(dir);
  return Object.entries(WORDS)
    .filter(([, word]) => all.includes(word))
    .map(([what]) => what);
}
