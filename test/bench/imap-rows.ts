import { formatCount, formatMB, formatMs, median } from './figures.ts';
import { FAR_MS, type ImapSpeed } from './imap-speed.ts';
import type { Row } from './report.ts';

/** Of mbsync's rate. */
const MIN_RATE = 1.5;
const MAX_PEAK_BYTES = 300e6;

/** What is read from an IMAP server. */
export function imapRows({ messages, near, far, quiet }: ImapSpeed): Row[] {
  const rate = (ms: readonly number[]): string =>
    `${formatMs(median(ms))}, ${formatCount((messages * 1000) / median(ms))} msg/s`;
  const peak = (bytes: number | undefined): string =>
    bytes === undefined ? '' : `, ${formatMB(bytes)} peak`;
  const first = (work: string, pair: ImapSpeed['near']): Row => {
    const ratio = median(pair.mbsyncMs) / median(pair.fetchMs);
    return {
      work,
      peers: `mbsync, FSync yes: ${rate(pair.mbsyncMs)}${peak(pair.mbsyncPeakBytes)}`,
      mailkeep: `${rate(pair.fetchMs)}; ${formatMs(median(pair.wallMs))} until searchable and sealed${peak(pair.peakBytes)}`,
      ratio,
      met: ratio >= MIN_RATE,
      target: `>= ${MIN_RATE} x mbsync`,
    };
  };
  const quietRatio = median(quiet.wallMs) / (median(quiet.mbsyncMs) + median(quiet.startMs));
  const most = Math.max(near.peakBytes ?? 0, far.peakBytes ?? 0);
  return [
    first('First sync from Dovecot, durable, before indexing', near),
    first(`The same behind ${FAR_MS} ms of round-trip time`, far),
    {
      work: `Quiet sync of ${formatCount(quiet.folders)} folders`,
      peers: `mbsync: ${formatMs(median(quiet.mbsyncMs))}`,
      mailkeep: `${formatMs(median(quiet.wallMs))}, of which ${formatMs(median(quiet.startMs))} start of the process`,
      ratio: quietRatio,
      met: quietRatio <= 1,
      target: '<= mbsync + start',
    },
    {
      work: 'Peak memory of the first syncs, as the units start them',
      peers: 'see above',
      mailkeep: formatMB(most),
      ratio: most / MAX_PEAK_BYTES,
      met: most <= MAX_PEAK_BYTES,
      target: '<= 300 MB',
    },
  ];
}
