/** Puts messages together byte by byte: no library would write what hostile senders do. */

/** A message before its header fields of every day are added. */
export interface Letter {
  /** Header fields that stand first, and so are the ones that count. */
  readonly fields?: readonly string[];
  /** The other fields, and the body. */
  readonly rest: string;
}

/** Returns the source of a message. @param number makes it another one than all others */
export function sourceOf({ fields = [], rest }: Letter, number: number): Buffer {
  const sent = new Date(Date.UTC(2026, 0, 5) + number * 60_000);
  const head = [
    ...fields,
    `Date: ${sent.toUTCString().replace('GMT', '+0000')}`,
    'From: Eve <eve@example.org>',
    'To: ada@example.org',
    `Subject: Hostile ${number}`,
    `Message-ID: <hostile-${number}@example.org>`,
    'MIME-Version: 1.0',
    '',
  ].join('\r\n');
  return Buffer.from(head + rest);
}

export function encodedWord(text: string): string {
  return `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`;
}

/** Returns a part, or the body of a message, with the fields that belong to it. */
export function part(type: string, content: string | Buffer, ...fields: readonly string[]): string {
  return [
    `Content-Type: ${type}`,
    'Content-Transfer-Encoding: base64',
    ...fields,
    '',
    base64(content),
    '',
  ].join('\r\n');
}

export function attached(type: string, content: string | Buffer, name: string): string {
  return part(type, content, `Content-Disposition: attachment; filename="${name}"`);
}

/** Returns the two parts in which programs write the name of a file: by RFC 2231, and raw, with another disposition. */
export function named(name: string, content: string): string[] {
  const extended = encodeURIComponent(name.toWellFormed()).replaceAll("'", '%27');
  const raw = name.replaceAll(/[\r\n"]/g, '');
  return [
    part('text/html', content, `Content-Disposition: attachment; filename*=utf-8''${extended}`),
    part('text/html', content, `Content-Disposition: inline; filename="${raw}"`),
  ];
}

export function multipart(parts: readonly string[]): string {
  const body = parts.map((text) => `--cut\r\n${text}`);
  return `Content-Type: multipart/mixed; boundary="cut"\r\n\r\n${body.join('')}--cut--\r\n`;
}

function base64(content: string | Buffer): string {
  return (
    Buffer.from(content)
      .toString('base64')
      .match(/.{1,76}/g) ?? []
  ).join('\r\n');
}
