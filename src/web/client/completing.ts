import type { Completion } from '../pages/completions.ts';

/** A text with the caret in it. */
export interface Typed {
  readonly text: string;
  readonly caret: number;
}

/** Returns what stands in the box once a completion is taken: what is finished is followed by a blank. */
export function taken({ text }: Typed, { from, to, insert }: Completion): Typed {
  const before = text.slice(0, from) + insert;
  const behind = text.slice(to);
  if (insert.endsWith(':')) return { text: before + behind, caret: before.length };
  // A blank that stands there already is passed over.
  const blank = /^\s/.test(behind) ? '' : ' ';
  return { text: before + blank + behind, caret: before.length + 1 };
}

/** Returns the rest of a completion, to be shown behind the caret; empty where it does not go on with what was typed. */
export function ghostOf({ text, caret }: Typed, row: Completion | undefined): string {
  // Before other text there is no room for it.
  if (row === undefined || caret !== text.length || row.to !== text.length) return '';
  const typed = text.slice(row.from);
  // What quotes a value, or names an address exactly, is added when it is taken.
  const insert = /^["<]/.test(typed) ? row.insert : row.insert.replace(/^["<](.*)[">]$/s, '$1');
  const isContinued = insert.toLowerCase().startsWith(typed.toLowerCase());
  return isContinued && typed !== '' ? insert.slice(typed.length) : '';
}
