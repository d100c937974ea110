import { MailParser } from 'mailparser';
import { readHeaderBlock } from '../mime/header-block.ts';

/** Bytes of a message that are looked at for its header. */
export const HEAD_BYTES = 1024 * 1024;

/** Fields of a header in order, `name: value`, white space made one space. */
export type Fields = readonly string[];

/**
 * The fields of a header as this project reads them; undefined where the header has lines that are no fields, or does
 * not end within `HEAD_BYTES`: no two readers take those alike, and so a difference would say nothing.
 */
export function ownFields(head: Buffer): Fields | undefined {
  const { fields, end, cut } = readHeaderBlock(head, HEAD_BYTES);
  if (cut || !isWellFormed(head.toString('latin1', 0, end))) return undefined;
  return fields.map(({ name, value }) => field(name, value));
}

/** The same by mailparser, which reads MIME for many other programs. */
export async function parserFields(head: Buffer): Promise<Fields> {
  const lines = await new Promise<readonly { readonly line: string }[]>((resolve, reject) => {
    const parser = new MailParser();
    let found: readonly { readonly line: string }[] = [];
    parser.on('headerLines', (told) => {
      found = told;
    });
    parser.on('data', (data) => {
      if (data.type !== 'attachment') return;
      data.content.resume();
      data.release();
    });
    parser.once('error', reject);
    parser.once('end', () => resolve(found));
    parser.end(head);
  });
  return lines.map(({ line }) => {
    const colon = line.indexOf(':');
    return field(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1));
  });
}

function isWellFormed(block: string): boolean {
  return /^(?:>?From .*\r?\n)?(?:[!-9;-~]+:.*\r?\n(?:[ \t].*\r?\n)*)+\r?\n?$/.test(block);
}

function field(name: string, value: string): string {
  return `${name}: ${value.replace(/\s+/g, ' ').trim()}`;
}
