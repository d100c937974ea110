import type { FileGroup } from './group-names.ts';

/** Types that say nothing, or too little: the ending of the name does. */
const UNTOLD =
  /^(?:$|application\/(?:octet-?stream|binary|(?:force-|x-)?download|x-msdownload|unknown|x-unknown|save|file)$|text\/plain$)/;
const BY_TYPE: readonly (readonly [FileGroup, RegExp])[] = [
  ['pdf', /^application\/(?:x-)?pdf$/],
  ['pictures', /^image\//],
  [
    'tables',
    /^(?:text\/(?:csv|tab-separated-values)|application\/(?:csv|x-csv|vnd\.ms-excel|vnd\.apple\.numbers|vnd\.openxmlformats-officedocument\.spreadsheetml\.|vnd\.oasis\.opendocument\.spreadsheet))/,
  ],
  [
    'archives',
    /^application\/(?:zip|gzip|x-(?:zip|zip-compressed|gzip|tar|gtar|bzip2?|xz|7z-compressed|rar|rar-compressed|compress)|vnd\.rar|java-archive|zstd)$/,
  ],
  [
    'documents',
    /^(?:text\/|message\/|application\/(?:msword|rtf|ics|xhtml\+xml|vnd\.(?:openxmlformats-officedocument\.|oasis\.opendocument\.|ms-(?:word|powerpoint)|apple\.(?:pages|keynote)))|application\/xml$|application\/json$)/,
  ],
];
const BY_ENDING: ReadonlyMap<string, FileGroup> = new Map([
  ...each('pdf', 'pdf'),
  ...each('pictures', 'png jpg jpeg jpe gif webp bmp svg tif tiff heic heif avif ico'),
  ...each('tables', 'csv tsv xls xlsx xlsm xltx ods numbers'),
  ...each('archives', 'zip gz tgz tar bz2 xz 7z rar zst jar'),
  ...each('documents', 'doc docx docm dotx odt ott rtf ppt pptx pptm ppsx odp otp pages'),
  ...each('documents', 'txt text md log html htm xhtml xml json eml ics vcf tex'),
]);

/**
 * Returns the group of an attachment. Types outrank names, as where text is read.
 *
 * @param type in lower case
 */
export function fileGroup(type: string, filename: string | null): FileGroup {
  const named = endingGroup(filename);
  if (UNTOLD.test(type)) return named ?? (type === 'text/plain' ? 'documents' : 'other');
  return BY_TYPE.find(([, types]) => types.test(type))?.[0] ?? 'other';
}

/** Types of a group that a query can name. */
const NAMED_TYPES: Readonly<Partial<Record<FileGroup, readonly string[]>>> = {
  pdf: ['application/pdf'],
  pictures: ['image/*'],
  tables: ['text/csv', 'application/vnd.ms-excel'],
  archives: ['application/zip', 'application/gzip'],
  documents: ['application/msword', 'application/rtf'],
};

/** Returns a filter for messages with attachments of a group, by type or ending; null for what has neither in common. */
export function groupFilter(group: FileGroup): string | null {
  const types = NAMED_TYPES[group]?.map((type) => `mime:${type}`);
  if (types === undefined) return null;
  const endings = [...BY_ENDING].flatMap(([ending, of]) => (of === group ? ending : []));
  const named = endings.length === 1 ? endings.join('') : `(${endings.join(' OR ')})`;
  return `(${[...types, `filename:${named}`].join(' OR ')})`;
}

function endingGroup(filename: string | null): FileGroup | undefined {
  const ending = /\.([a-z0-9]{2,7})[\s.]{0,8}$/i.exec(filename ?? '')?.[1];
  return ending === undefined ? undefined : BY_ENDING.get(ending.toLowerCase());
}

function each(group: FileGroup, endings: string): (readonly [string, FileGroup])[] {
  return endings.split(' ').map((ending) => [ending, group] as const);
}
