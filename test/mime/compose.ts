/** Small raw messages for tests: headers, then a body, CRLF throughout. */
export function mail(headers: Readonly<Record<string, string>>, body = ''): Buffer {
  const lines = Object.entries({ 'MIME-Version': '1.0', ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body.replace(/\r?\n/g, '\r\n')}`, 'utf8');
}

/** As `mail`, but each char of headers and body is one byte. */
export function rawMail(headers: Readonly<Record<string, string>>, body = ''): Buffer {
  return Buffer.from(mail(headers, body).toString('utf8'), 'latin1');
}

export interface PartSpec {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The body of a multipart with this boundary. */
export function parts(boundary: string, specs: readonly PartSpec[]): string {
  const written = specs.map(
    ({ headers, body }) =>
      `--${boundary}\n${Object.entries(headers)
        .map(([name, value]) => `${name}: ${value}\n`)
        .join('')}\n${body}\n`,
  );
  return `${written.join('')}--${boundary}--\n`;
}

/** A multipart message of the parts. */
export function multipart(
  subtype: string,
  specs: readonly PartSpec[],
  headers: Readonly<Record<string, string>> = {},
): Buffer {
  return mail(
    { ...headers, 'Content-Type': `multipart/${subtype}; boundary="=-bound"` },
    parts('=-bound', specs),
  );
}

export const text = (body: string, headers: Readonly<Record<string, string>> = {}): PartSpec => ({
  headers: { 'Content-Type': 'text/plain; charset=utf-8', ...headers },
  body,
});

export const html = (body: string, headers: Readonly<Record<string, string>> = {}): PartSpec => ({
  headers: { 'Content-Type': 'text/html; charset=utf-8', ...headers },
  body,
});

/** A base64 attachment of these bytes. */
export function attached(bytes: Buffer, filename: string, contentType: string): PartSpec {
  return {
    headers: {
      'Content-Type': contentType,
      'Content-Transfer-Encoding': 'base64',
      'Content-Disposition': `attachment; filename="${filename}"`,
    },
    body: bytes.toString('base64').replace(/.{76}/g, '$&\n'),
  };
}

/** The beginning of a PNG of so many points, as far as it says how large it is; then so many bytes of nothing. */
export function pngHead(width: number, height: number, more = 0): Buffer {
  const bytes = Buffer.alloc(41 + more);
  bytes.write('\x89PNG\r\n\x1a\n', 'latin1');
  bytes.writeUInt32BE(13, 8);
  bytes.write('IHDR', 12, 'latin1');
  bytes.writeUInt32BE(width, 16);
  bytes.writeUInt32BE(height, 20);
  bytes.write('IDAT', 37, 'latin1');
  return bytes;
}
