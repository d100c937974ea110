import type { CopySpeed } from './copy-speed.ts';
import { formatMB, formatMs, median } from './figures.ts';
import type { Row } from './report.ts';

/** Of restic's rate. */
const MIN_RATE = 0.7;
const MAX_BYTES = 300e6;

/** Off-site copies, whole processes. Rates are of the bytes that each of the two copies. */
export function copyRows(speed: CopySpeed): Row[] {
  const { logBytes, folderBytes } = speed;
  const rate = (bytes: number, ms: readonly number[]): number => (bytes * 1000) / median(ms);
  const figure = (bytes: number, ms: readonly number[], peak?: number): string =>
    [
      formatMs(median(ms)),
      `${formatMB(rate(bytes, ms))}/s`,
      ...(peak === undefined ? [] : [`${formatMB(peak)} peak`]),
    ].join(', ');
  const row = (
    work: string,
    [ours, peak]: readonly [readonly number[], number | undefined],
    [theirs, theirPeak]: readonly [readonly number[], number | undefined],
  ): Row => {
    const ratio = rate(logBytes, ours) / rate(folderBytes, theirs);
    return {
      work,
      peers: figure(folderBytes, theirs, theirPeak),
      mailkeep: figure(logBytes, ours, peak),
      ratio,
      met: ratio >= MIN_RATE,
      target: `>= ${MIN_RATE} of the rate`,
    };
  };
  const peak = Math.max(speed.copyPeakBytes ?? 0, speed.backPeakBytes ?? 0);
  return [
    row(
      `Copy of ${formatMB(logBytes)} of log to RadosGW (restic: backup of the ${formatMB(folderBytes)} of its folder)`,
      [speed.copyMs, speed.copyPeakBytes],
      [speed.backupMs, speed.backupPeakBytes],
    ),
    row(
      'The way back: the log, read and checked (restic: restore)',
      [speed.fetchMs, speed.backPeakBytes],
      [speed.restoreMs, speed.restorePeakBytes],
    ),
    {
      work: 'The way back until everything can be searched, with a new catalog',
      peers: '',
      mailkeep: formatMs(median(speed.backMs)),
      target: 'none',
    },
    {
      work: 'The same copy again: everything is there',
      peers: '',
      mailkeep: formatMs(median(speed.againMs)),
      target: 'none',
    },
    {
      work: 'Peak memory of a copy and of the way back',
      peers: '',
      mailkeep: formatMB(peak),
      met: peak <= MAX_BYTES,
      target: `<= ${formatMB(MAX_BYTES)}`,
    },
  ];
}
