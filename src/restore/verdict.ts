import type { RestoreFacts } from '../errors/restore.ts';
import type { RefusalReason } from './plan.ts';

const TOO_LARGE: ReadonlySet<string> = new Set(['APPENDLIMIT', 'TOOBIG']);
const NO_FOLDER: ReadonlySet<string> = new Set(['NOPERM', 'READ-ONLY', 'TRYCREATE', 'NONEXISTENT']);

/** What a refusal of APPEND is about (RFC 5530; RFC 7889 for sizes); older servers say it in words only. */
export function verdictOn({ response, text }: RestoreFacts['restore-refused']): RefusalReason {
  if (response === 'OVERQUOTA' || /over ?quota|quota exceeded/i.test(text)) return 'quota';
  if (response !== null && TOO_LARGE.has(response)) return 'append-limit';
  if (response !== null && NO_FOLDER.has(response)) return 'folder';
  if (/permission denied|read-?only/i.test(text)) return 'folder';
  // Of LIMIT, only the words say what is limited.
  const isOfSize =
    /too (?:big|large)/i.test(text) || (response === 'LIMIT' && /siz|larg/i.test(text));
  return isOfSize ? 'append-limit' : 'server';
}
