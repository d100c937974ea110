import { buffer } from 'node:stream/consumers';
import yazl from 'yazl';

/** A zip of these entries. */
export async function zip(entries: Readonly<Record<string, string | Buffer>>): Promise<Buffer> {
  const file = new yazl.ZipFile();
  for (const [name, content] of Object.entries(entries)) {
    file.addBuffer(Buffer.from(content), name, { mtime: new Date(0) });
  }
  file.end();
  return await buffer(file.outputStream);
}

const XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>';
const W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';

export function docx(...paragraphs: readonly string[]): Promise<Buffer> {
  const body = paragraphs
    .map((text) => `<w:p><w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`)
    .join('');
  return zip({
    '[Content_Types].xml': `${XML}<Types/>`,
    'word/document.xml': `${XML}<w:document ${W}><w:body>${body}</w:body></w:document>`,
  });
}

/**
 * A PDF with a page for each text, written out by hand: Helvetica, one line a page, as simple as the format allows.
 *
 * @param extra further entries of the catalog dictionary
 */
export function pdf(pages: readonly string[], extra = '', compressed?: Buffer): Buffer {
  const objects: (string | Buffer)[] = [];
  const kids = pages.map((_, i) => `${4 + 2 * i} 0 R`).join(' ');
  objects.push(`<< /Type /Catalog /Pages 2 0 R ${extra} >>`);
  objects.push(`<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`);
  objects.push('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>');
  for (const [i, page] of pages.entries()) {
    objects.push(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${5 + 2 * i} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
    );
    const shown = page.replace(/[()\\]/g, '\\$&');
    const plain = Buffer.from(`BT /F1 12 Tf 72 720 Td (${shown}) Tj ET`, 'latin1');
    const content = compressed ?? plain;
    const filter = compressed === undefined ? '' : '/Filter /FlateDecode ';
    objects.push(pdfStream(filter, content));
  }
  return pdfOf(objects);
}

/**
 * A stream of a PDF.
 *
 * @param entries those of its dictionary but the length
 */
export function pdfStream(entries: string, content: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(`<< ${entries}/Length ${content.length} >>\nstream\n`),
    content,
    Buffer.from('\nendstream'),
  ]);
}

/** A PDF of these objects, numbered from 1; the first is its catalog. */
export function pdfOf(objects: readonly (string | Buffer)[]): Buffer {
  const pieces: Buffer[] = [Buffer.from('%PDF-1.4\n')];
  const offsets: number[] = [];
  let at = pieces[0]?.length ?? 0;
  const add = (bytes: Buffer) => {
    pieces.push(bytes);
    at += bytes.length;
  };
  for (const [i, object] of objects.entries()) {
    offsets.push(at);
    add(Buffer.from(`${i + 1} 0 obj\n`));
    add(Buffer.from(object));
    add(Buffer.from('\nendobj\n'));
  }
  const table = at;
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  add(Buffer.from(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows}`));
  add(
    Buffer.from(
      `trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${table}\n%%EOF\n`,
    ),
  );
  return Buffer.concat(pieces);
}
