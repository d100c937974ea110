import type { TypeBytes } from '../../../catalog/stats/charts.ts';

interface Group {
  readonly name: string;
  readonly has: (type: string) => boolean;
  /** What finds messages with such attachments; null where no filter covers the group. */
  readonly term: string | null;
}

const begins =
  (...prefixes: readonly string[]) =>
  (type: string): boolean =>
    prefixes.some((prefix) => type === prefix || type.startsWith(`${prefix}/`));
const is =
  (...types: readonly string[]) =>
  (type: string): boolean =>
    types.includes(type);

const OFFICE = [
  'application/msword',
  'application/rtf',
  'application/vnd.ms-excel',
  'application/vnd.ms-powerpoint',
  'application/vnd.oasis.opendocument.presentation',
  'application/vnd.oasis.opendocument.spreadsheet',
  'application/vnd.oasis.opendocument.text',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
];
const PACKED = [
  'application/gzip',
  'application/vnd.rar',
  'application/x-7z-compressed',
  'application/x-bzip2',
  'application/x-gzip',
  'application/x-rar-compressed',
  'application/x-tar',
  'application/x-zip-compressed',
  'application/zip',
];

const GROUPS: readonly Group[] = [
  { name: 'PDF', has: is('application/pdf'), term: 'mime:application/pdf' },
  { name: 'Pictures', has: begins('image'), term: 'mime:image' },
  { name: 'Office documents', has: is(...OFFICE), term: anyOf(OFFICE) },
  { name: 'Packed files', has: is(...PACKED), term: anyOf(PACKED) },
  { name: 'Sound and video', has: begins('audio', 'video'), term: '(mime:audio OR mime:video)' },
  { name: 'Text', has: begins('text'), term: 'mime:text has:attachment' },
  { name: 'Messages', has: begins('message'), term: 'mime:message has:attachment' },
];

function anyOf(types: readonly string[]): string {
  return `(${types.map((type) => `mime:${type}`).join(' OR ')})`;
}

/** Returns the bytes of attachments by groups of types; the largest first. */
export function typeGroups(
  types: readonly TypeBytes[],
): { readonly name: string; readonly bytes: number; readonly term: string | null }[] {
  const bytes = new Map<Group, number>();
  const other: Group = { name: 'Other', has: () => true, term: null };
  for (const { type, bytes: size } of types) {
    const group = GROUPS.find(({ has }) => has(type)) ?? other;
    bytes.set(group, (bytes.get(group) ?? 0) + size);
  }
  return [...bytes]
    .map(([{ name, term }, size]) => ({ name, term, bytes: size }))
    .filter((group) => group.bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
}
