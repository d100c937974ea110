/** What a sender may write wherever a sender writes. */
export const EVIL = `"><script>window.pwned=1</script><img src=x onerror=pwned()>'&lt;`;

interface Attached {
  readonly name: string;
  readonly type: string;
  readonly bytes: Buffer | string;
  readonly inline?: boolean;
}

/** Returns the source of a message with these attachments, from a sender with a hostile name. */
export function mail(n: number, subject: string, attached: readonly Attached[]): string {
  const month = String(1 + (n % 3)).padStart(2, '0');
  return [
    `Message-ID: <${n}@example.org>`,
    `Date: Mon, 02 ${['Jan', 'Feb', 'Mar'][n % 3]} 2026 10:${String(n % 60).padStart(2, '0')}:00 +0000`,
    `From: =?utf-8?B?${Buffer.from(`Eve ${EVIL}`).toString('base64')}?= <eve@example.org>`,
    `Subject: =?utf-8?B?${Buffer.from(subject).toString('base64')}?=`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain; charset=utf-8',
    '',
    `Text of ${n} in month ${month}.`,
    ...attached.flatMap(({ name, type, bytes, inline = false }) => [
      '--b',
      `Content-Type: ${type}`,
      `Content-Disposition: ${inline ? 'inline' : 'attachment'}; filename*=utf-8''${encodeURIComponent(name)}`,
      'Content-Transfer-Encoding: base64',
      '',
      Buffer.from(bytes).toString('base64').replaceAll(/.{76}/g, '$&\r\n'),
    ]),
    '--b--',
    '',
  ].join('\r\n');
}
