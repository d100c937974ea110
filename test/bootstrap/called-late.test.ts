import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { simpleParser } from 'mailparser';
import { expect, test } from 'vitest';

/** Mail for which mailparser calls what its bundle loads late, or has from us. */
const MAILS = {
  'shared-tables:encoding-japanese':
    'Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n\x1b$BF|K\\8l\x1b(B\r\n',
  'called-late:html-to-text':
    'Content-Type: text/html\r\n\r\n<h1>Ferry</h1><p>At <b>noon</b> &amp; at six.</p>\r\n',
  'called-late:he': 'From: "A & B" <a@example.org>\r\n\r\ninner\r\n',
};

test('what a bundle loads late, or shares, answers as the dependency does', async () => {
  const { calledLate, sharedTables }: Record<'calledLate' | 'sharedTables', Plugin> = await import(
    new URL('../../src/bootstrap/bundle-plugins.mjs', import.meta.url).href
  );
  const { outputFiles, metafile } = await build({
    stdin: {
      contents: "export { simpleParser } from 'mailparser';",
      resolveDir: import.meta.dirname,
    },
    write: false,
    bundle: true,
    metafile: true,
    format: 'cjs',
    platform: 'node',
    plugins: [calledLate, sharedTables],
  });
  const replaced = Object.keys(metafile.inputs).filter((input) =>
    /^(?:called-late|shared-tables):/.test(input),
  );
  expect(replaced.sort()).toEqual(Object.keys(MAILS).sort());
  const file = join(mkdtempSync(join(tmpdir(), 'bundled-')), 'parser.cjs');
  writeFileSync(file, outputFiles[0]?.contents ?? '');
  const bundled: { simpleParser: typeof simpleParser } = await import(pathToFileURL(file).href);
  for (const [name, source] of Object.entries(MAILS)) {
    const of = async (parse: typeof simpleParser) => {
      const { text, html, textAsHtml, from } = await parse(Buffer.from(source, 'latin1'));
      return { text, html, textAsHtml, from: from?.html };
    };
    const expected = await of(simpleParser);
    expect(await of(bundled.simpleParser), name).toEqual(expected);
    expect(JSON.stringify(expected), name).toMatch(/日本語|FERRY|A &amp; B|A &#x26; B/);
  }
});
