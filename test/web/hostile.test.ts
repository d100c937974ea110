import fc from 'fast-check';
import { expect, test } from 'vitest';
import { expectHarmless } from './harmless.ts';
import { archiveOf, idOf, serve } from './served.ts';

const encoded = (text: string) => `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`;
const VIEWS = ['', '?view=plain', '?view=html', '?view=headers', '?view=source', '?view=history'];

/** Pieces of which senders put together what might break a page. */
const PIECES = [
  ...[
    '<',
    '>',
    '"',
    "'",
    '&',
    '&lt;',
    '&#60;',
    '</',
    '/>',
    '-->',
    '<!--',
    ']]>',
    '\u0000',
    '\u202e',
    '\ud800',
  ],
  ...[
    '<script>',
    '</script>',
    '</textarea>',
    '</title>',
    '</pre>',
    '</iframe>',
    '<svg/onload=x>',
    '<math>',
  ],
  ...[
    'javascript:',
    'onerror=',
    ' style=',
    '\u2028',
    '\t',
    ' ',
    'a',
    'é',
    '佐',
    '{{',
    '${',
    '`',
    '\\',
  ],
] as const;

test('mail that is put together of hostile pieces stays text on every page', async () => {
  const seed = 20_261_122;
  const evil = fc
    .array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 12 })
    .map((all) => all.join(''));
  const mails = fc.sample(fc.tuple(evil, evil, evil, evil, evil), { seed, numRuns: 12 });
  const sources = mails.map(([subject, name, header, body, file], i) =>
    [
      `Message-ID: <evil-${i}@example.org>`,
      'Date: Wed, 04 Feb 2026 10:00:00 +0000',
      `From: ${encoded(name)} <eve@example.org>`,
      `Subject: ${encoded(subject)}`,
      `X-Header: ${encoded(header)}`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="cut"',
      '',
      '--cut',
      'Content-Type: text/html; charset=utf-8',
      'Content-Transfer-Encoding: base64',
      '',
      Buffer.from(`<p>${body}</p>${name}`).toString('base64'),
      '--cut',
      `Content-Type: application/pdf`,
      `Content-Disposition: attachment; filename*=utf-8''${encodeURIComponent(file.toWellFormed())}`,
      '',
      body.replaceAll('\u0000', ''),
      '--cut--',
      '',
    ].join('\r\n'),
  );
  const letters = Object.fromEntries(sources.map((source, i) => [`evil${i}`, source]));
  const hostile = await serve(await archiveOf(letters));
  expectHarmless((await hostile.get('/mail')).text);
  for (const [i, source] of sources.entries()) {
    const id = idOf(source);
    for (const view of VIEWS) {
      const { status, text: html } = await hostile.get(`/m/${id}${view}`);
      expect([seed, i, view, status]).toEqual([seed, i, view, 200]);
      expectHarmless(html);
    }
    const { headers: saved } = await hostile.get(`/m/${id}/attachments/1`);
    expect(saved['content-disposition']).toMatch(
      /^attachment; filename="[\x20-\x7e]*"; filename\*=UTF-8''[\w.!~%-]*$/,
    );
  }
  expect(hostile.errors).toEqual([]);
});
