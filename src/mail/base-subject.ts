/** A subject without what replying and forwarding adds (RFC 5256, section 2.1). */
export interface BaseSubject {
  /** On one line, without prefixes; case and accents as they were. */
  readonly base: string;
  /** Something was taken off that marks a reply or a forward. */
  readonly reply: boolean;
}

/** Blobs such as `[list]`, and the words for reply and forward: those of RFC 5256 and of widely used translations. */
const BLOB = String.raw`\[[^[\]]{0,200}\]\s*`;
const WORDS = [
  're fwd? aw wg sv vs vb antw doorst tr rif rv enc odp pd',
  'ynt ilt отв на пересл 回复 答复 转发 回覆 轉寄 返信 転送 답장 전달',
]
  .join(' ')
  .replaceAll(' ', '|');
const REPLY = new RegExp(
  String.raw`^(?:${BLOB})*(?:${WORDS})\s*(?:${BLOB})?(?:[\[(^]?\d{1,4}[\])]?\s*)?[:：]\s*`,
  'iu',
);
const LEADING_BLOB = new RegExp(`^${BLOB}`, 'u');
const TRAILER = /\s*\(fwd\)$/i;
const WRAPPED = /^\[fwd:(.*)\]$/i;
/** A longer subject is cut before it is parsed. Code units. */
const LONGEST = 1_000;

export function baseSubject(subject: string): BaseSubject {
  let base = subject.slice(0, LONGEST).replace(/\s+/g, ' ').trim();
  let reply = false;
  for (;;) {
    const before = base;
    base = base.replace(TRAILER, '');
    if (base !== before) reply = true;
    const led = base.replace(REPLY, '');
    if (led !== base) reply = true;
    base = led;
    // A blob goes only when something is left behind it.
    const bare = base.replace(LEADING_BLOB, '');
    if (bare !== '') base = bare;
    const inner = WRAPPED.exec(base)?.[1];
    if (inner !== undefined) {
      base = inner.trim();
      reply = true;
    }
    if (base === before) return { base, reply };
  }
}
