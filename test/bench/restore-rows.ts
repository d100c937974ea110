import { formatCount, formatMB, formatMs, median } from './figures.ts';
import type { Row } from './report.ts';
import type { RestoreSpeed } from './restore-speed.ts';

/** Of mbsync's rate. */
const MIN_RATE = 0.8;

/** What is sent to an IMAP server, whole processes. */
export function restoreRows(speed: RestoreSpeed): Row[] {
  const rate = (ms: readonly number[]): string =>
    `${formatMs(median(ms))}, ${formatCount((speed.messages * 1000) / median(ms))} msg/s, ${formatMB((speed.rawBytes * 1000) / median(ms))}/s`;
  const peak = (bytes: number | undefined): string =>
    bytes === undefined ? '' : `, ${formatMB(bytes)} peak`;
  const ratio = median(speed.pushMs) / median(speed.restoreMs);
  return [
    {
      work: 'Restore to an empty Dovecot (mbsync: push of the same Maildir)',
      peers: `${rate(speed.pushMs)}${peak(speed.mbsyncPeakBytes)}`,
      mailkeep: `${rate(speed.restoreMs)}${peak(speed.peakBytes)}`,
      ratio,
      met: ratio >= MIN_RATE,
      target: `>= ${MIN_RATE} of the rate`,
    },
    {
      work: 'The same restore again: everything is there',
      peers: '',
      mailkeep: `${formatMs(median(speed.againMs))}${peak(speed.againPeakBytes)}`,
      target: 'none',
    },
  ];
}
