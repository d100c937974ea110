import { createHash } from 'node:crypto';

/** Shorter texts occur in random bytes by chance. */
const SHORTEST = 7;
const LONGEST = 120;
const WORD = /[A-Za-z\x80-\xff][\w\x80-\xff'-]{6,39}/g;
const ADDRESS = /[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}/g;
const MESSAGE_ID = /^message-id:\s*<([^>\r\n]{7,200})>/gim;
const SUBJECT = /^subject:[ \t]*([^\r\n]{7,200})/gim;
const FILE_NAME = /name\*?\d?=(?:"([^"\r\n]{7,200})"|([^\s;"]{7,200}))/gi;
/** What bytes that are written as hexadecimal digits contain by chance. */
const HEXADECIMAL = /^[0-9a-f]{0,15}$/i;

/** Returns what gives mail away: its words, addresses, subjects, names of files, Message-IDs and hashes. */
export function termsOf(sources: readonly Buffer[]): Set<string> {
  const terms = new Set<string>();
  const add = (term: string | undefined): void => {
    if (term === undefined || term.length < SHORTEST || HEXADECIMAL.test(term)) return;
    terms.add(term.slice(0, LONGEST));
  };
  for (const source of sources) {
    const text = source.toString('latin1');
    for (const [word] of text.matchAll(WORD)) add(word);
    for (const [address] of text.matchAll(ADDRESS)) add(address);
    for (const pattern of [MESSAGE_ID, SUBJECT, FILE_NAME]) {
      for (const [, one, other] of text.matchAll(pattern)) add(one ?? other);
    }
    for (const hash of hashesOf(source)) terms.add(hash);
  }
  return terms;
}

/** Returns the hashes of bytes in the forms in which they could be written somewhere. */
export function hashesOf(bytes: Buffer): string[] {
  return ['sha256', 'md5', 'sha1'].flatMap((kind) => {
    const digest = createHash(kind).update(bytes).digest();
    return [digest.toString('hex'), digest.toString('base64'), digest.toString('latin1')];
  });
}

/** Returns the terms that occur anywhere in the bytes. */
export function found(terms: Iterable<string>, haystacks: Iterable<Buffer>): Set<string> {
  const byBeginning = new Map<string, string[]>();
  const first = new Uint8Array(1 << 24);
  for (const term of terms) {
    const beginning = term.slice(0, SHORTEST);
    byBeginning.set(beginning, [...(byBeginning.get(beginning) ?? []), term]);
    const [a = 0, b = 0, c = 0] = Buffer.from(term.slice(0, 3), 'latin1');
    first[(a << 16) | (b << 8) | c] = 1;
  }
  const hits = new Set<string>();
  for (const bytes of haystacks) {
    let three = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      three = ((three << 8) | (bytes[at] ?? 0)) & 0xff_ffff;
      if (first[three] === 0 || at < 2) continue;
      const beginning = bytes.toString('latin1', at - 2, at - 2 + SHORTEST);
      for (const term of byBeginning.get(beginning) ?? []) {
        if (bytes.toString('latin1', at - 2, at - 2 + term.length) === term) hits.add(term);
      }
    }
  }
  return hits;
}
