import { formatCount, formatMs } from './figures.ts';
import type { SearchSpeed } from './measurements.ts';
import type { Row } from './report.ts';

const NEWEST_MS = 1;
const RANKED_MS = 30;
const MIN_MS = 200;
/** How much longer a page may take in twenty times as many messages. */
const LARGER = 2;

/** The rows of the made-up catalogs: the first has the targets, the others may take twice as long. */
export function searchRows(speeds: readonly SearchSpeed[]): Row[] {
  return speeds.flatMap((speed, i) => rowsOfOne(speed, i === 0));
}

function rowsOfOne({ messages, kinds, relevance, slowest }: SearchSpeed, first: boolean): Row[] {
  const of = formatCount(messages);
  const most = first ? NEWEST_MS : NEWEST_MS * LARGER;
  const cell = (ms: number, most_: number, mailkeep: string) => ({
    peers: '',
    mailkeep,
    ratio: ms / most_,
    met: ms <= most_,
    target: `<= ${formatMs(most_)}`,
  });
  return [
    ...kinds.map(({ name, ms }) => ({
      work: `Newest 20 of ${of}: ${name}`,
      ...cell(ms, most, formatMs(ms)),
    })),
    {
      work: `Best 20 by relevance of ${of}`,
      ...cell(
        relevance.ms,
        RANKED_MS * (first ? 1 : LARGER),
        `${formatMs(relevance.ms)} (${formatCount(relevance.hits)} hits)`,
      ),
    },
    {
      work: `Slowest of ${formatCount(slowest.queries)} odd queries in ${of}`,
      ...(first
        ? cell(slowest.ms, MIN_MS, formatMs(slowest.ms))
        : { peers: '', mailkeep: formatMs(slowest.ms), target: 'none' }),
    },
  ];
}
