import fc from 'fast-check';
import MailComposer from 'nodemailer/lib/mail-composer';
import PostalMime from 'postal-mime';
import { describe, expect, it } from 'vitest';
import { extractMessage } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';

/**
 * The same generated mail through another parser, written apart from mailparser. Where the two agree on
 * subject, text, people and attachments, each is a witness for the other.
 */

const word = fc.oneof(
  fc.stringMatching(/^[a-zA-Z0-9]{1,12}$/),
  fc.constantFrom('Grüße', 'Привет', '日本語', 'שלום', 'naïve', '€uro', '😀', "it's", 'a=b', '--x'),
);
const words = (max: number) =>
  fc.array(word, { minLength: 1, maxLength: max }).map((list) => list.join(' '));
const lines = fc.array(words(14), { minLength: 1, maxLength: 12 }).map((list) => list.join('\n'));
const fileName = fc
  .tuple(words(4), fc.constantFrom('pdf', 'txt', 'tar.gz', 'docx'))
  .map(([name, extension]) => `${name}.${extension}`);

const message = fc.record({
  subject: words(20),
  from: words(3),
  to: fc.array(words(3), { minLength: 1, maxLength: 4 }),
  text: fc.option(lines),
  html: fc.option(lines),
  textEncoding: fc.constantFrom('quoted-printable' as const, 'base64' as const),
  attachments: fc.array(
    fc.record({
      filename: fileName,
      content: fc.uint8Array({ maxLength: 400 }),
      inline: fc.boolean(),
    }),
    { maxLength: 3 },
  ),
});

function compose(m: typeof message extends fc.Arbitrary<infer M> ? M : never): Promise<Buffer> {
  const composer = new MailComposer({
    subject: m.subject,
    from: { name: m.from, address: 'from@example.org' },
    to: m.to.map((name, i) => ({ name, address: `to${i}@example.org` })),
    ...(m.text === null ? {} : { text: m.text }),
    ...(m.html === null ? {} : { html: `<p>${m.html}</p>` }),
    textEncoding: m.textEncoding,
    attachments: m.attachments.map(({ filename, content, inline }) => ({
      filename,
      content: Buffer.from(content),
      contentType: 'application/octet-stream',
      contentDisposition: inline ? 'inline' : 'attachment',
    })),
    messageId: '<generated@example.org>',
    date: new Date(0),
  });
  return new Promise((resolve, reject) => {
    composer.compile().build((error, source) => {
      if (error === null || error === undefined) resolve(source);
      else reject(error);
    });
  });
}

const folded = (text: string | undefined) => (text ?? '').replace(/\s+/g, ' ').trim();

describe('generated mail', () => {
  it('is read as postal-mime reads it, and as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(message, async (written) => {
        const source = await compose(written);
        const ours = await extractMessage(source, false, DEFAULT_LIMITS);
        const theirs = await PostalMime.parse(source);

        expect(ours.status).toBe('parsed');
        expect(ours.subject).toBe(folded(theirs.subject));
        expect(ours.subject).toBe(folded(written.subject));
        expect(ours.from).toBe(`${folded(theirs.from?.name)} <from@example.org>`);
        expect(ours.to).toBe(
          [...new Set(written.to.map((name, i) => `${folded(name)} <to${i}@example.org>`))].join(
            ', ',
          ),
        );
        expect(ours.messageId).toBe('generated@example.org');
        if (written.text !== null) {
          expect(folded(ours.body)).toContain(folded(written.text));
          expect(folded(ours.body)).toContain(folded(theirs.text));
        } else if (written.html !== null) {
          expect(folded(ours.body)).toBe(folded(written.html));
        }
        expect(ours.attachments.map(({ filename, size }) => [filename, size])).toEqual(
          theirs.attachments.map(({ filename, content }) => [
            filename,
            typeof content === 'string' ? content.length : content.byteLength,
          ]),
        );
        expect(
          ours.attachments.map(({ filename, size, inline }) => ({ filename, size, inline })),
        ).toEqual(
          written.attachments.map(({ filename, content, inline }) => ({
            filename,
            size: content.length,
            inline,
          })),
        );
      }),
      { numRuns: 300 },
    );
  });
});
