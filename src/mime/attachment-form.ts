import type { LeafInfo } from './leaf-info.ts';

/**
 * How the bytes of an attachment are read as text: `pdf`, `office` (OOXML or ODF), `mail`, or `text`, `html` or
 * `calendar` with a colon and the charset the mail names (nothing where it names none). Together with the bytes it
 * decides the text, so that the same attachment in ten messages is read once.
 */
export type AttachmentForm = string;

/** Types that tell nothing of what is inside: the file name's ending does. */
const UNTOLD =
  /^application\/(?:octet-stream|octetstream|binary|download|force-download|unknown|x-unknown|x-download|x-msdownload|save|file)$/;
const PDF = /^application\/(?:x-)?pdf$/;
const OFFICE =
  /^application\/vnd\.(?:openxmlformats-officedocument\.(?:wordprocessingml|spreadsheetml|presentationml)\.|oasis\.opendocument\.|ms-(?:word|excel|powerpoint)\.\w+\.macroenabled)/;
const MAIL = /^message\/(?:rfc822|global|news)$/;
/** Types outside text/ whose bytes are text all the same. */
const TEXT =
  /^(?:application\/(?:json|xml|csv|x-csv|x-sh|x-patch|x-ruby|x-python|x-tex|sql|yaml|x-yaml))$/;
const CALENDAR = /^(?:text|application)\/(?:calendar|ics|x-vcalendar)$/;
const HTML = /^(?:text\/html|application\/xhtml\+xml)$/;

const BY_ENDING: Readonly<Record<string, string>> = {
  pdf: 'pdf',
  ...each(
    'office',
    'docx docm dotx xlsx xlsm xltx pptx pptm ppsx potx odt ott ods ots odp otp odg',
  ),
  eml: 'mail',
  ics: 'calendar',
  ...each('html', 'html htm xhtml'),
  ...each('text', 'txt text csv tsv md log json xml yaml yml ini diff patch tex vcf'),
};

/** The form of a leaf that has text to be searched, or null. Types outrank file names. */
export function attachmentForm({
  contentType,
  filename,
  charset,
}: LeafInfo): AttachmentForm | null {
  const type = contentType.toLowerCase();
  const form = formOf(type) ?? (UNTOLD.test(type) ? byEnding(filename) : null);
  if (form !== 'text' && form !== 'html' && form !== 'calendar') return form;
  return `${form}:${(charset ?? '').trim().toLowerCase().slice(0, 40)}`;
}

function formOf(type: string): string | null {
  if (PDF.test(type)) return 'pdf';
  if (OFFICE.test(type)) return 'office';
  if (MAIL.test(type)) return 'mail';
  if (CALENDAR.test(type)) return 'calendar';
  if (HTML.test(type)) return 'html';
  return type.startsWith('text/') || TEXT.test(type) ? 'text' : null;
}

function byEnding(filename: string | null): string | null {
  const ending = /\.([a-z]{2,5})[\s.]*$/i.exec(filename ?? '')?.[1]?.toLowerCase();
  return ending === undefined ? null : (BY_ENDING[ending] ?? null);
}

function each(form: string, endings: string): Record<string, string> {
  return Object.fromEntries(endings.split(' ').map((ending) => [ending, form]));
}
