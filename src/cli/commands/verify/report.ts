import type { Finding } from '../../../verify/findings.ts';
import type { CatalogState } from '../../../verify/grown-catalog.ts';
import type { Sampling } from '../../../verify/sample.ts';
import type { Verification } from '../../../verify/verify-archive.ts';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import { findingText } from '../../../wording/finding.ts';
import type { Colours } from '../../output.ts';

/** Findings shown one by one; --json has more. */
const MOST_SHOWN = 50;

export function verifyReport(
  result: Verification,
  mode: 'full' | 'quick',
  durationMs: number,
  colours: Colours,
): string {
  const { segments, records, messages, rawBytes, rebuilt, found, findings, tail, last } = result;
  const rate = durationMs > 0 ? `, ${count(rawBytes / 1000 / durationMs)} MB/s` : '';
  return [
    `Read ${counted(segments, 'segment')}, ${counted(last?.number ?? 0, 'commit')}, ${counted(records, 'record')}, ${counted(messages, 'message')} (${bytes(rawBytes)} of mail) in ${span(durationMs)}${rate}.`,
    ...(mode === 'full' ? [`Rebuilt and hashed ${counted(rebuilt, 'message')}.`] : []),
    catalogText(result.catalog, inLog(findings)),
    ...(tail === null
      ? []
      : [
          `Behind the last commit are ${bytes(tail.bytes)} of a write that is in progress or was interrupted; they are not part of the archive.`,
        ]),
    ...(found === 0 && result.catalog === 'unreadable'
      ? ['The log is as it was written.']
      : verdict(found, findings, colours)),
    ...remedy(findings),
  ].join('\n');
}

export function sampleReport(
  { checked, of, oldest, found, findings }: Sampling,
  durationMs: number,
  colours: Colours,
): string {
  return [
    `Rebuilt and hashed ${count(checked)} of ${counted(of, 'message')}, least recently verified first, in ${span(durationMs)}.`,
    oldest === null
      ? 'Some messages have never been verified.'
      : `Every message was verified since ${new Date(oldest).toISOString()}.`,
    ...verdict(found, findings, colours),
    ...remedy(findings),
  ].join('\n');
}

/** Where only the catalog is damaged, a rebuild suffices; the line about the catalog says so. */
function remedy(findings: readonly Finding[]): string[] {
  return inLog(findings)
    ? ['Nothing was changed; "mailkeep verify --repair" recovers what can be found.']
    : [];
}

function inLog(findings: readonly Finding[]): boolean {
  return findings.some(({ what }) => what === 'log' || what === 'message' || what === 'missing');
}

export function verdict(found: number, findings: readonly Finding[], colours: Colours): string[] {
  if (found === 0) return [colours.green('Everything is as it was written.')];
  const shown = findings.slice(0, MOST_SHOWN);
  const more = found - shown.length;
  return [
    ...shown.map((finding) => `${colours.red('DAMAGED')} ${findingText(finding)}`),
    ...(more > 0 ? [`… and ${counted(more, 'more finding')}; --json shows them.`] : []),
    colours.red(`${counted(found, 'finding')}.`),
  ];
}

function catalogText(state: CatalogState, logIsDamaged: boolean): string {
  switch (state) {
    case 'equal':
      return 'The catalog agrees with the log.';
    case 'behind':
      return 'The catalog agrees with the log, but is behind it; the next sync adds the rest.';
    case 'missing':
      return 'There is no catalog to compare; "mailkeep rebuild" creates one.';
    case 'other-version':
      return 'The catalog is of another version and was not compared; "mailkeep rebuild" rebuilds it.';
    case 'different':
      // A rebuild from a damaged log would lose what the catalog may still know.
      return logIsDamaged
        ? 'The catalog differs from the log, which is damaged.'
        : 'The catalog differs from the log; "mailkeep rebuild" rebuilds it.';
    case 'damaged':
      return 'The catalog is damaged; "mailkeep rebuild" rebuilds it.';
    case 'unreadable':
      return 'The catalog could not be read and was not compared.';
  }
}
