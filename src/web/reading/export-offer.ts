import type { CountRequest } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { within } from './mail-list.ts';

export const DOWNLOAD_FORMATS = ['zip', 'mbox', 'eml'] as const;
export type DownloadFormat = (typeof DOWNLOAD_FORMATS)[number];

/** What a download of a query would have. */
export interface ExportOffer {
  /** At least so many messages where counting was given up. */
  readonly messages: number;
  readonly isCounted: boolean;
  /** Of their sources; null where there are too many messages to add them up. */
  readonly bytes: number | null;
  /** More than a browser should save: the command line takes any number. */
  readonly isTooLarge: boolean;
}

/** What a browser should save in one piece. */
const LIMITS = { messages: 50_000, bytes: 10_000_000_000 };
const COUNTING_MS = 500;

/** Counts what a download would have. */
export function exportOffer(
  { catalog }: Pick<Reader, 'catalog'>,
  request: CountRequest,
  limits = LIMITS,
): ExportOffer {
  return catalog.snapshot(() => {
    const { count, complete } = catalog.countHitsWhile(request, within(COUNTING_MS));
    if (!complete || count > limits.messages)
      return { messages: count, isCounted: complete, bytes: null, isTooLarge: true };
    const { messages, bytes } = catalog.stats.totals(request);
    return { messages, isCounted: true, bytes, isTooLarge: bytes > limits.bytes };
  });
}

/** Returns the format of that name; undefined for any other text. */
export function downloadFormat(text: string | undefined): DownloadFormat | undefined {
  return DOWNLOAD_FORMATS.find((format) => format === text);
}
