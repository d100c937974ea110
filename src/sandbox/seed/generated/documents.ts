import { crc32 } from 'node:zlib';
import { type Random, randomAt } from '../random.ts';

/** Something that is attached. The same number gives the same bytes, so a forwarded document is the same document. */
export interface Document {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

const SALT = 7;

/** The document with this number: mostly PDFs and tables, pictures, archives, and now and then a large one. */
export function documentAt(seed: number, number: number): Document {
  const random = randomAt(seed, number, SALT);
  const kind = random.below(100);
  if (kind < 40) return pdf(random, number);
  if (kind < 65) return table(random, number);
  if (kind < 85) return picture(`photo-${number}.png`, random, 40 + random.below(80));
  if (kind < 97) {
    return {
      filename: `archive-${number}.zip`,
      contentType: 'application/zip',
      bytes: random.bytes(8_000 + random.below(90_000)),
    };
  }
  return {
    filename: `recording-${number}.bin`,
    contentType: 'application/octet-stream',
    bytes: random.bytes(400_000 + random.below(2_200_000)),
  };
}

/** The picture in the signature of everybody of one company. */
export function signaturePicture(seed: number, company: number): Document {
  return picture('logo.png', randomAt(seed, company, SALT + 1), 24 + (company % 5) * 8);
}

function table(random: Random, number: number): Document {
  const rows = ['date;article;quantity;price'];
  const count = 10 + random.below(120);
  for (let row = 0; row < count; row += 1) {
    const day = 1 + random.below(28);
    rows.push(
      `2025-0${1 + random.below(9)}-${String(day).padStart(2, '0')};A-${random.below(10_000)};${1 + random.below(50)};${random.below(100_000) / 100}`,
    );
  }
  return {
    filename: `figures-${number}.csv`,
    contentType: 'text/csv',
    bytes: Buffer.from(`${rows.join('\r\n')}\r\n`),
  };
}

/** A one-page PDF with a line of text a reader can find. */
function pdf(random: Random, number: number): Document {
  const lines = Array.from(
    { length: 3 + random.below(30) },
    (_, line) =>
      `0 -14 Td (Document ${number}, line ${line + 1}: item ${random.below(1_000_000)}) Tj`,
  );
  const content = `BT /F1 11 Tf 60 780 Td (Document ${number}) Tj\n${lines.join('\n')}\nET`;
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ];
  let text = '%PDF-1.4\n';
  const offsets: string[] = [];
  objects.forEach((object, index) => {
    offsets.push(`${String(text.length).padStart(10, '0')} 00000 n \n`);
    text += `${index + 1} 0 obj\n${object}\nendobj\n`;
  });
  const xref = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${offsets.join('')}`;
  text += `trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${xref}\n%%EOF\n`;
  return {
    filename: `document-${number}.pdf`,
    contentType: 'application/pdf',
    bytes: Buffer.from(text, 'latin1'),
  };
}

/** A greyscale PNG, its pixels stored uncompressed: no zlib version may change its bytes. */
function picture(filename: string, random: Random, side: number): Document {
  const rows: Buffer[] = [];
  for (let row = 0; row < side; row += 1) rows.push(Buffer.from([0]), random.bytes(side));
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.writeUInt8(8, 8);
  return {
    filename,
    contentType: 'image/png',
    bytes: Buffer.concat([
      Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]),
      chunk('IHDR', header),
      chunk('IDAT', storedZlib(Buffer.concat(rows))),
      chunk('IEND', Buffer.alloc(0)),
    ]),
  };
}

function chunk(type: string, data: Buffer): Buffer {
  const out = Buffer.alloc(12 + data.length);
  out.writeUInt32BE(data.length, 0);
  out.write(type, 4, 'latin1');
  data.copy(out, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
  return out;
}

/** A zlib stream (RFC 1950) of one stored block; pictures here stay below its 65,535 bytes. */
function storedZlib(data: Buffer): Buffer {
  const head = Buffer.alloc(7);
  head.writeUInt16BE(0x7801, 0);
  head.writeUInt8(1, 2);
  head.writeUInt16LE(data.length, 3);
  head.writeUInt16LE(~data.length & 0xffff, 5);
  let a = 1;
  let b = 0;
  for (const byte of data) {
    a = (a + byte) % 65_521;
    b = (b + a) % 65_521;
  }
  const tail = Buffer.alloc(4);
  tail.writeUInt32BE(((b << 16) | a) >>> 0, 0);
  return Buffer.concat([head, data, tail]);
}
