import { formatCount, formatMB, formatMs, median } from './figures.ts';
import type { ArchiveSpeed, VerifySpeed } from './measurements.ts';
import type { Row } from './report.ts';

/** Bytes of raw mail a second, on two cores. */
const MIN_VERIFIED = 300e6;

/** What is done with an archive that is there: compressing it, verifying it and exporting from it. */
export function archiveRows({ exports, heavy, compaction, ...own }: ArchiveSpeed): Row[] {
  return [
    {
      work: 'Sealing of the whole log, read back, whole process',
      peers: '',
      mailkeep: `${formatMs(median(compaction.ms))}, ${formatMB(perSecond(own.rawBytes, compaction.ms))}/s; log ${(compaction.logBytes / own.rawBytes).toFixed(2)} of the raw bytes`,
      target: 'none',
    },
    verifiedRow('Full verification, whole process', own),
    ...(heavy === undefined
      ? []
      : [verifiedRow('Full verification of mail with large attachments', heavy)]),
    ...exports.map(({ format, ms, messages, bytes }) => ({
      work: `Export, ${format}, whole process`,
      peers: '',
      mailkeep: `${formatMs(median(ms))}, ${formatCount(perSecond(messages, ms))} msg/s, ${formatMB(perSecond(bytes, ms))}/s`,
      target: 'none',
    })),
  ];
}

function verifiedRow(work: string, { rawBytes, verifyMs, verifyPeakBytes }: VerifySpeed): Row {
  const verified = perSecond(rawBytes, verifyMs);
  const peak = verifyPeakBytes === undefined ? '' : `, ${formatMB(verifyPeakBytes)} peak`;
  return {
    work,
    peers: '',
    mailkeep: `${formatMs(median(verifyMs))}, ${formatMB(verified)} of raw mail a second${peak}`,
    ratio: verified / MIN_VERIFIED,
    met: verified >= MIN_VERIFIED,
    target: '>= 300 MB/s of raw mail',
  };
}

/** The rebuild by itself: a whole run has the indexing of the first sync to hold it against. */
export function rebuildRow({ rawBytes, rebuildMs, rebuildAttachmentsMs }: ArchiveSpeed): Row {
  return {
    work: 'Rebuild of the catalog, whole process',
    peers: '',
    mailkeep: `${formatMs(median(rebuildMs))}, ${formatMB(perSecond(rawBytes, rebuildMs))}/s; ${formatMs(median(rebuildAttachmentsMs))} of it for the text of attachments`,
    target: 'none',
  };
}

function perSecond(amount: number, ms: readonly number[]): number {
  return (amount * 1000) / median(ms);
}
