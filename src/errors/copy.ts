import { MailkeepError } from './mailkeep-error.ts';

/** Codes of bringing a second copy level, with the facts that fill their sentences. */
export interface CopyFacts {
  /** The folder holds another archive. */
  readonly 'copy-other-archive': {
    readonly to: string;
    readonly found: string;
    readonly wanted: string;
  };
  /** Files there that look like a log cannot be read: they may be of another archive. */
  readonly 'copy-unreadable': { readonly to: string };
  /** The copy has commits that this archive lacks: it would become shorter. */
  readonly 'copy-ahead': { readonly to: string; readonly number: number; readonly here: number };
  /** The copy has another commit under a number: somebody wrote to it. */
  readonly 'copy-diverged': { readonly to: string; readonly number: number; readonly here: number };
  /** The folder holds no archive, but other files. */
  readonly 'copy-elsewhere': { readonly to: string; readonly stranger: string };
  /** The log of the copy is a link: it would be written, and tidied, somewhere else than in the folder that was named. */
  readonly 'copy-linked': { readonly file: string };
  /** The folder is the archive itself, or lies in it. */
  readonly 'copy-onto-itself': { readonly to: string };
}

export type CopyCode = keyof CopyFacts;

/** Nothing was changed when one of these is thrown. */
export function copyError<C extends CopyCode>(
  code: C,
  facts: CopyFacts[C],
): MailkeepError<C, CopyFacts[C]> {
  return new MailkeepError('usage', code, facts);
}
