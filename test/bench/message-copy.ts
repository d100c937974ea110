import type { Attachment } from './attachment.ts';
import type { Seeded } from './seeded.ts';

/**
 * Sources are handled as latin1 text, one character a byte, so that whatever a message holds in other places
 * stays as it is.
 */
interface Split {
  readonly head: string;
  readonly blank: string;
  readonly body: string;
  readonly newline: string;
}

/** Of the base64 parts that a copy repeats, the share left alone: attachments that really are passed on. */
const PASSED_ON_SHARE = 0.2;
const DAY_MS = 86_400_000;

/** Splits at the first empty line; undefined for a source without one. */
function splitSource(source: string): Split | undefined {
  const blank = /\r?\n\r?\n/.exec(source);
  if (blank === null) return undefined;
  return {
    head: source.slice(0, blank.index),
    blank: blank[0],
    body: source.slice(blank.index + blank[0].length),
    newline: blank[0].startsWith('\r') ? '\r\n' : '\n',
  };
}

/**
 * The `copy`-th repetition of a source, so that no two messages of a set are alike: ids (with their references, which
 * keeps threads), date, one word of the text and, in most cases, one line of each base64 part are changed. Without
 * the last, attachments would be deduplicated that are different in a real mailbox. Lengths stay nearly the same.
 */
export function repeatMessage(source: Buffer, copy: number, random: Seeded): Buffer {
  const split = splitSource(source.toString('latin1'));
  if (copy === 0 || split === undefined) return source;
  const head = split.head
    .replace(
      /^(message-id|in-reply-to|references):((?:.|\r?\n[ \t])*)/gim,
      (_all, name: string, value: string) => `${name}:${value.replaceAll('<', `<k${copy}.`)}`,
    )
    .replace(/^(date):[ \t]*([^\r\n]*)/im, (all, name: string, value: string) => {
      const time = Date.parse(value);
      if (Number.isNaN(time)) return all;
      const moved = new Date(time - copy * 61 * DAY_MS - random.below(DAY_MS));
      return `${name}: ${moved.toUTCString().replace('GMT', '+0000')}`;
    });
  const body = changeEncodedLines(changeWord(split.body, random), random, split.head);
  return Buffer.from(`${head}${split.blank}${body}`, 'latin1');
}

/** Replaces one word between spaces by another of the same length. */
function changeWord(body: string, random: Seeded): string {
  const word = / ([a-z]{5,12}) /g;
  word.lastIndex = Math.floor(body.length * random.next());
  let found = word.exec(body);
  if (found === null) {
    word.lastIndex = 0;
    found = word.exec(body);
  }
  const old = found?.[1];
  if (found === null || old === undefined) return body;
  const letters = Array.from({ length: old.length }, () =>
    String.fromCharCode(97 + random.below(26)),
  ).join('');
  const at = found.index + 1;
  return `${body.slice(0, at)}${letters}${body.slice(at + old.length)}`;
}

/** Changes one full line in each run of base64 lines, whose bytes decode to plain letters of the same length. */
function changeEncodedLines(body: string, random: Seeded, head: string): string {
  const encoded = /^content-transfer-encoding:[ \t]*base64/im;
  if (!encoded.test(head) && !encoded.test(body)) return body;
  return body.replace(/^(?:[A-Za-z0-9+/]{60}(?:[A-Za-z0-9+/]{4}){0,4}\r?\n){2,}/gm, (run) => {
    if (random.next() < PASSED_ON_SHARE) return run;
    const end = run.indexOf('\n');
    const lines = Math.floor(run.length / (end + 1));
    const at = random.below(lines) * (end + 1);
    const line = run.slice(at, at + end + 1).trimEnd();
    const bytes = Buffer.alloc((line.length / 4) * 3, random.bytes(8).toString('hex'));
    return `${run.slice(0, at)}${bytes.toString('base64')}${run.slice(at + line.length)}`;
  });
}

/**
 * Wraps a message into multipart/mixed with the attachment behind it, as a mail program would have sent it: the fields
 * that describe the old body move into the first part, every byte of the body stays.
 */
export function attach(source: Buffer, attachment: Attachment, random: Seeded): Buffer {
  const split = splitSource(source.toString('latin1'));
  if (split === undefined) return source;
  const nl = split.newline;
  const moved: string[] = [];
  const head = split.head.replace(
    /^(?:content-[a-z-]+|mime-version):(?:.|\r?\n[ \t])*(?:\r?\n|$(?![\s\S]))/gim,
    (field) => {
      if (/^content-/i.test(field)) moved.push(field.trimEnd());
      return '';
    },
  );
  const boundary = `=_bench_${random.bytes(9).toString('hex')}`;
  const lines = attachment.bytes.toString('base64').match(/.{1,76}/g) ?? [];
  const text = [
    head.trimEnd(),
    'MIME-Version: 1.0',
    `Content-Type: multipart/mixed; boundary="${boundary}"`,
    '',
    `--${boundary}`,
    ...moved,
    '',
    split.body,
    `--${boundary}`,
    `Content-Type: ${attachment.contentType}; name="${attachment.filename}"`,
    'Content-Transfer-Encoding: base64',
    `Content-Disposition: attachment; filename="${attachment.filename}"`,
    '',
    ...lines,
    `--${boundary}--`,
    '',
  ].join(nl);
  return Buffer.from(text, 'latin1');
}

/** When the message says it was sent; undefined when its date cannot be read. Milliseconds since the epoch. */
export function sentAt(source: Buffer): number | undefined {
  const head = splitSource(source.toString('latin1'))?.head;
  const value = head === undefined ? undefined : /^date:[ \t]*([^\r\n]*)/im.exec(head)?.[1];
  const time = value === undefined ? Number.NaN : Date.parse(value);
  return Number.isNaN(time) ? undefined : time;
}
