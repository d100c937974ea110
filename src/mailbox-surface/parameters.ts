import type { z } from 'zod';
import { invalid, problemsByField } from './refusal.ts';
import type { Page } from './reply.ts';

/** What a listing can be sorted by. */
export type SortField = 'uid' | 'date' | 'size';

export interface Sort {
  readonly field: SortField;
  readonly descending: boolean;
}

/**
 * Reads `page` and `perPage` of a query.
 *
 * @throws Refusal 422
 */
export function pageOf(query: URLSearchParams, defaultPerPage: number, maxPerPage: number): Page {
  const wrong: Record<string, string[]> = {};
  const page = integer(query.get('page'), 1, Number.MAX_SAFE_INTEGER, 1);
  const perPage = integer(query.get('perPage'), 1, maxPerPage, defaultPerPage);
  if (page === null) wrong.page = ['must be an integer of at least 1'];
  if (perPage === null) wrong.perPage = [`must be an integer from 1 to ${maxPerPage}`];
  if (page === null || perPage === null) throw invalid(wrong);
  return { page, perPage };
}

function integer(raw: string | null, low: number, high: number, fallback: number): number | null {
  if (raw === null) return fallback;
  if (!/^\d{1,16}$/.test(raw)) return null;
  const value = Number(raw);
  return value >= low && value <= high ? value : null;
}

/**
 * Reads `sort` of a query: `uid`, `date` or `size`, with `-` for descending; `-uid` by default.
 *
 * @throws Refusal 422
 */
export function sortOf(query: URLSearchParams): Sort {
  const raw = query.get('sort') ?? '-uid';
  const descending = raw.startsWith('-');
  const field = descending ? raw.slice(1) : raw;
  if (field === 'uid' || field === 'date' || field === 'size') return { field, descending };
  throw invalid({ sort: ['must be one of uid, -uid, date, -date, size, -size'] });
}

/**
 * Reads the uid of a path: an integer from 1 on.
 *
 * @throws Refusal 422
 */
export function uidFrom(raw = ''): number {
  const uid = /^\d{1,15}$/.test(raw) ? Number(raw) : 0;
  if (uid < 1) throw invalid({ uid: ['must be an integer of at least 1'] });
  return uid;
}

/**
 * Reads a body by its schema.
 *
 * @throws Refusal 422 with every problem by its path
 */
export function bodyFrom<T extends z.ZodType>(body: unknown, schema: T): z.output<T> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw invalid(problemsByField(result.error.issues));
}

/** Returns a folder's path as it is spelled: INBOX is the same in any case (RFC 3501, 5.1), other names are not. */
export function spelledPath(path: string): string {
  return /^inbox(?=$|\.)/i.test(path) ? `INBOX${path.slice(5)}` : path;
}

/** INBOX first, then by path. */
export function byFolderPath(
  { path: a }: { readonly path: string },
  { path: b }: { readonly path: string },
): number {
  if (a === 'INBOX' || b === 'INBOX') return a === b ? 0 : a === 'INBOX' ? -1 : 1;
  return a < b ? -1 : 1;
}
