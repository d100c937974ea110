import { expect, test } from 'vitest';
import { pdf } from '../attachments/documents.ts';
import { mail } from './attached-mail.ts';
import { png } from './pictures.ts';
import { archiveOf, Served } from './served.ts';

test('a message whose PDF stands in the text with a logo is one of those with attachments', async () => {
  const served = new Served();
  try {
    const inText = [
      { name: 'logo.png', type: 'image/png', bytes: png(4, 4), inline: true },
      { name: 'scan.pdf', type: 'application/pdf', bytes: pdf(['The lease ends.']), inline: true },
    ];
    const data = await archiveOf({
      both: mail(1, 'Both', inText),
      logo: mail(2, 'Logo', inText.slice(0, 1)),
    });
    await served.start(data);
    const cookie = await served.signIn();
    const { text } = await served.ask('/files', { headers: { cookie } });
    expect(text).toContain('scan.pdf');
    expect(/Messages <b>(\d+)<\/b>/.exec(text)?.[1]).toBe('1');
  } finally {
    await served.close();
  }
});
