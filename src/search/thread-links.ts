import { hash } from 'node:crypto';
import { baseSubject } from '../mail/base-subject.ts';
import { foldWord } from './normalise.ts';

/** What a message says about its thread; nodes and subjects are 47-bit hashes. */
export interface ThreadLinks {
  /** The node of its Message-ID; null where the message has none. */
  readonly node: number | null;
  /** Nodes of the messages it names, oldest first, each once; its own may be among them. */
  readonly ancestors: readonly number[];
  readonly subject: SubjectLink;
}

/** What a subject says about the thread of a message. */
export interface SubjectLink {
  /** The hash of the base subject; null where that is empty. */
  readonly base: number | null;
  /** The subject is that of a reply or a forward. */
  readonly reply: boolean;
}

/** References that count: the first, which is the thread's, and the last. */
const ANCESTORS = 20;
/** Hex digits of the 48 bits of which a hash keeps 47. */
const HEX_DIGITS = 12;

/** Returns the thread links in these headers, whose ids have no angle brackets. */
export function threadLinks(headers: {
  readonly messageId: string | null;
  readonly references: readonly string[];
  readonly subject: string;
}): ThreadLinks {
  const { messageId, references, subject } = headers;
  const named =
    references.length <= ANCESTORS
      ? references
      : [...references.slice(0, 1), ...references.slice(1 - ANCESTORS)];
  return {
    node: messageId === null ? null : threadNode(messageId),
    ancestors: [...new Set(named.map(threadNode))],
    subject: subjectLink(subject),
  };
}

/** Returns the node of a Message-ID; angle brackets do not count. */
export function threadNode(messageId: string): number {
  return hash47(withoutBrackets(messageId));
}

/** Returns a Message-ID without angle brackets; null for one that tells no messages apart, such as `<>` or `<@host>`. */
export function usableId(messageId: string): string | null {
  const id = withoutBrackets(messageId);
  return id.startsWith('@') || !/[\p{L}\p{N}]/u.test(id) ? null : id;
}

function withoutBrackets(messageId: string): string {
  return messageId.trim().replace(/^<|>$/g, '').trim();
}

/** Returns what a subject says, without the prefixes of replies and forwards. */
export function subjectLink(subject: string): SubjectLink {
  const { base, reply } = baseSubject(subject);
  return base === '' ? { base: null, reply: false } : { base: hash47(foldWord(base)), reply };
}

/** Returns the first 47 bits of the text's SHA-256: six bytes in a row of the catalog. */
export function hash47(text: string): number {
  const digest = hash('sha256', text, 'hex');
  return Math.floor(Number.parseInt(digest.slice(0, HEX_DIGITS), 16) / 2);
}
