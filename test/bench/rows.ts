import { archiveRows } from './archive-rows.ts';
import { formatCount, formatMB, formatMs, median, percentile } from './figures.ts';
import { imapRows } from './imap-rows.ts';
import {
  type IndexerFigures,
  type MailkeepFigures,
  type Measured,
  type Measurements,
  type MirrorFigures,
  type PerTerm,
  TERM_NAMES,
  type TermName,
} from './measurements.ts';
import type { Row } from './report.ts';
import { searchRows } from './search-rows.ts';

const MAX_PEAK_BYTES = 300e6;
const MAX_WEBHOOK_MS = 2_000;
const MAX_ABOVE_NODE_MS = 40;

/** The table of a run: every cell comes from its measurements, every `met` from the cells of its line. */
export function rowsOf(run: Measurements): Row[] {
  return [
    firstSync(run),
    searchable(run),
    sealed(run),
    processorTime(run),
    peakMemory(run),
    ...onCores(run),
    ...memoryGrowth(run),
    disk(run),
    ...inProcess(run),
    ...searchRows(run.search),
    ...cold(run),
    firstRequests(run),
    quietRequests(run),
    deletionRequests(run),
    quietTime(run),
    rebuild(run),
    ...(run.archive === undefined ? [] : archiveRows(run.archive)),
    ...(run.imap === undefined ? [] : imapRows(run.imap)),
    ...webhook(run),
  ];
}

function webhook({ webhookMs }: Measurements): Row[] {
  if (webhookMs === undefined) return [];
  const late = percentile(webhookMs, 95);
  return [
    {
      work: 'Webhook to archive, searchable, on loopback',
      peers: '',
      mailkeep: `p50 ${formatMs(percentile(webhookMs, 50))}, p95 ${formatMs(late)} (${webhookMs.length} messages)`,
      ...against(late / MAX_WEBHOOK_MS, (ratio) => ratio < 1),
      target: '< 2 s',
    },
  ];
}

function firstSync(run: Measurements): Row {
  const rate = (ms: readonly number[]): number => (run.messages * 1000) / median(ms);
  const peer = valueIn(run.mbsync);
  const ours = valueIn(run.mailkeep);
  return {
    work: 'First sync, durable, before indexing',
    peers: `mbsync, FSync yes: ${show(run.mbsync, (it) => `${formatMs(median(it.firstMs))}, ${formatCount(rate(it.firstMs))} msg/s, ${formatPeak(it.peakBytes)}`)}`,
    mailkeep: show(
      run.mailkeep,
      (it) => `${formatMs(median(it.fetchMs))}, ${formatCount(rate(it.fetchMs))} msg/s`,
    ),
    ...against(ours && peer && rate(ours.fetchMs) / rate(peer.firstMs), (ratio) => ratio >= 2),
    target: '>= 2 x mbsync',
  };
}

/** mbsync followed by each indexer that was measured. */
function pairsOf(run: Measurements): { readonly indexer: IndexerFigures; readonly ms: number }[] {
  const mirror = valueIn(run.mbsync);
  return [valueIn(run.mu), valueIn(run.notmuch)].flatMap((indexer) =>
    mirror === undefined || indexer === undefined
      ? []
      : [{ indexer, ms: median(mirror.firstMs) + median(indexer.wallMs) }],
  );
}

function sealed(run: Measurements): Row {
  const ours = valueIn(run.mailkeep);
  const pairs = pairsOf(run);
  return {
    work: 'Empty disk to searchable and sealed',
    peers: 'see above',
    mailkeep: show(run.mailkeep, (it) => formatMs(median(it.wallMs))),
    ...against(
      ours && pairs.length > 0
        ? median(ours.wallMs) / Math.min(...pairs.map(({ ms }) => ms))
        : undefined,
      (ratio) => ratio <= 0.6,
    ),
    target: '<= 0.6 x the faster pair',
  };
}

const MAX_CPU_MS = 1.7;
/** Threads that took less than this of a message's processor time, ms, are not named. */
const NAMED_FROM_MS = 0.02;

function processorTime(run: Measurements): Row {
  const ours = valueIn(run.mailkeep);
  const each = (ms: number): number => ms / run.messages;
  const known = ours?.cpuMs.every((ms) => !Number.isNaN(ms)) === true;
  const total = ours !== undefined && known ? each(median(ours.cpuMs)) : undefined;
  const names = new Set(ours?.threadMs.flatMap((times) => Object.keys(times)));
  const threads = [...names]
    .map((name) => ({
      name,
      ms: each(median((ours?.threadMs ?? []).map((times) => times[name] ?? 0))),
    }))
    .filter(({ ms }) => ms >= NAMED_FROM_MS)
    .sort((a, b) => b.ms - a.ms)
    .map(({ name, ms }) => `${name} ${ms.toFixed(2)}`);
  return {
    work: 'Processor time of that, a message',
    peers: '',
    mailkeep: show(run.mailkeep, () =>
      total === undefined ? 'not measured' : `${total.toFixed(2)} ms: ${threads.join(', ')}`,
    ),
    ...against(total === undefined ? undefined : total / MAX_CPU_MS, (ratio) => ratio <= 1),
    target: `<= ${MAX_CPU_MS} ms`,
  };
}

function onCores(run: Measurements): Row[] {
  return (valueIn(run.mailkeep)?.onCores ?? []).map((it) => ({
    work: `First sync on ${it.cores} cores`,
    peers: '',
    mailkeep: `durable ${formatMs(it.fetchMs)}, searchable ${formatMs(it.searchableMs)}, sealed ${formatMs(it.wallMs)}, ${formatPeak(it.peakBytes)}`,
    target: 'none',
  }));
}

function searchable(run: Measurements): Row {
  const ours = valueIn(run.mailkeep);
  const pairs = pairsOf(run);
  const fastest = Math.min(...pairs.map(({ ms }) => ms));
  return {
    work: 'Empty disk to searchable',
    peers:
      pairs.length === 0
        ? 'not measured'
        : pairs
            .map(
              ({ indexer, ms }) =>
                `mbsync + ${indexer.name}: ${formatMs(ms)}, ${formatCount((run.messages * 1000) / ms)} msg/s, ${formatPeak(indexer.peakBytes)}`,
            )
            .join('; '),
    mailkeep: show(
      run.mailkeep,
      (it) =>
        `${formatMs(median(it.searchableMs))}, ${formatCount((run.messages * 1000) / median(it.searchableMs))} msg/s; ${formatMs(median(it.wallMs))} until the log is sealed`,
    ),
    ...against(
      ours && pairs.length > 0 ? median(ours.searchableMs) / fastest : undefined,
      (ratio) => ratio <= 0.5,
    ),
    target: '<= 0.5 x the faster pair',
  };
}

function peakMemory(run: Measurements): Row {
  const peak = valueIn(run.mailkeep)?.peakBytes;
  return {
    work: 'Peak memory of that, as the units start it',
    peers: 'see above',
    mailkeep: show(
      run.mailkeep,
      (it) => `${formatPeak(it.peakBytes)}; from a shell ${formatPeak(it.shellPeakBytes)}`,
    ),
    ...against(peak && peak / MAX_PEAK_BYTES, (ratio) => ratio <= 1),
    target: '<= 300 MB',
  };
}

function memoryGrowth(run: Measurements): Row[] {
  const few = run.memory?.[0];
  const many = run.memory?.at(-1);
  if (few === undefined || many === undefined) return [];
  return [
    {
      work: `Peak memory at ${formatCount(many.messages)} and ${formatCount(few.messages)} messages`,
      peers: '',
      mailkeep: `${formatMB(many.peakBytes)} and ${formatMB(few.peakBytes)}`,
      ...against(many.peakBytes / few.peakBytes, (ratio) => ratio <= 1.2),
      target: '<= 1.2 x',
    },
  ];
}

function disk(run: Measurements): Row {
  const share = (bytes: number): string => (bytes / run.rawBytes).toFixed(2);
  const ours = valueIn(run.mailkeep);
  const used = (it: IndexerFigures): string => `${it.name} ${share(it.diskBytes)} on top`;
  return {
    work: 'Disk, as a share of the raw bytes',
    peers: [
      `Maildir ${share(run.maildirBytes)}`,
      `mu: ${show(run.mu, used)}`,
      `notmuch: ${show(run.notmuch, used)}`,
    ].join('; '),
    mailkeep: show(
      run.mailkeep,
      (it) => `log ${share(it.logBytes)} + catalog ${share(it.catalogBytes)}`,
    ),
    ...against(
      ours && (ours.logBytes + ours.catalogBytes) / run.rawBytes,
      (ratio) => ratio <= 0.53,
    ),
    target: '<= 0.53 once sealed',
  };
}

function inProcess(run: Measurements): Row[] {
  return TERM_NAMES.map((term) => ({
    work: `Newest 20, ${term}, in process`,
    peers: '',
    mailkeep: show(
      run.mailkeep,
      (it) => `${formatMs(it.inProcessMs[term])} (${formatCount(it.hits[term])} hits)`,
    ),
    ...against(valueIn(run.mailkeep)?.inProcessMs[term], (ms) => ms <= 1),
    target: '<= 1 ms',
  }));
}

function cold(run: Measurements): Row[] {
  const { cold, mu, notmuch } = run;
  const ofPeer = (
    measured: Measured<IndexerFigures>,
    latency: PerTerm<number> | undefined,
    term: TermName,
  ): string =>
    show(measured, ({ hits }) =>
      latency === undefined
        ? 'not measured'
        : `${formatMs(latency[term])} (${formatCount(hits[term])} hits)`,
    );
  return TERM_NAMES.map((term) => {
    const ours = cold.mailkeep?.[term];
    return {
      work: `Newest 20, ${term}, cold command line`,
      peers: `notmuch ${ofPeer(notmuch, cold.notmuch, term)}; mu ${ofPeer(mu, cold.mu, term)}; node -e 0 ${formatMs(cold.node)}`,
      mailkeep: ours === undefined ? show(run.mailkeep, () => 'not measured') : formatMs(ours),
      ...against(ours && (ours - cold.node) / MAX_ABOVE_NODE_MS, (ratio) => ratio <= 1),
      target: `<= node -e 0 + ${MAX_ABOVE_NODE_MS} ms`,
    };
  });
}

/** One request per message, one per page of 100, one for the account and one for the folders. */
export function requestFloor(folderCounts: readonly number[]): number {
  return folderCounts.reduce((sum, count) => sum + count + Math.ceil(count / 100), 2);
}

function firstRequests(run: Measurements): Row {
  const floor = requestFloor(run.folderCounts);
  const ours = valueIn(run.mailkeep);
  return {
    work: 'Requests of the first sync',
    peers: `floor ${formatCount(floor)}`,
    mailkeep: show(run.mailkeep, (it) => formatCount(it.firstRequests)),
    ...against(ours && ours.firstRequests / floor, (ratio) => ratio <= 1.02),
    target: '<= 1.02 x the floor',
  };
}

function quietRequests(run: Measurements): Row {
  const most = 2 + run.folderCounts.length;
  const ours = valueIn(run.mailkeep);
  return {
    work: `Requests of a quiet pass, ${run.folderCounts.length} folders with mail`,
    peers: `walk of all pages: ${formatCount(requestFloor(run.folderCounts) - run.messages)}`,
    mailkeep: show(run.mailkeep, (it) => formatCount(it.againRequests)),
    ...against(ours && ours.againRequests / most, (ratio) => ratio <= 1),
    target: `<= 2 + folders (${most})`,
  };
}

function deletionRequests(run: Measurements): Row {
  const most = 4 + run.folderCounts.length + 2 * Math.log2(run.messages / 100);
  const ours = valueIn(run.mailkeep)?.deletionRequests;
  return {
    work: `Requests to find one deletion among ${formatCount(run.messages)}`,
    peers: `walk of all pages: ${formatCount(requestFloor(run.folderCounts) - run.messages)}`,
    mailkeep: show(run.mailkeep, (it) =>
      it.deletionRequests === undefined ? 'not found' : formatCount(it.deletionRequests),
    ),
    ...against(ours && ours / most, (ratio) => ratio <= 1),
    target: `<= 4 + folders + 2 log2(N/100) (${Math.floor(most)})`,
  };
}

function quietTime(run: Measurements): Row {
  const ours = valueIn(run.mailkeep);
  return {
    work: 'No-change pass, with process start',
    peers: `mbsync ${show(run.mbsync, (it: MirrorFigures) => formatMs(median(it.againMs)))}`,
    mailkeep: show(run.mailkeep, (it) => formatMs(median(it.againMs))),
    ...against(ours && median(ours.againMs) / 1000, (ratio) => ratio <= 1),
    target: '<= 1 s',
  };
}

function rebuild(run: Measurements): Row {
  const indexing = (it: MailkeepFigures): number => median(it.indexMs);
  const ours = valueIn(run.mailkeep);
  return {
    work: 'Rebuild of the catalog',
    peers: `our indexing, without attachments: ${show(run.mailkeep, (it) => formatMs(indexing(it)))}`,
    mailkeep: show(
      run.mailkeep,
      (it) =>
        `${formatMs(median(it.rebuildMs))}, ${formatMs(median(it.rebuildMs) - median(it.rebuildAttachmentsMs))} without the text of attachments`,
    ),
    ...against(ours && median(ours.rebuildMs) / indexing(ours), (ratio) => ratio <= 1),
    target: '<= the indexing',
  };
}

/** `ratio` and `met` of a row, when there are two figures to compare. */
function against(
  ratio: number | undefined,
  meets: (ratio: number) => boolean,
): Pick<Row, 'ratio' | 'met'> {
  return ratio === undefined ? {} : { ratio, met: meets(ratio) };
}

function valueIn<T>(measured: Measured<T>): T | undefined {
  return 'value' in measured ? measured.value : undefined;
}

function show<T>(measured: Measured<T>, print: (value: T) => string): string {
  return 'value' in measured ? print(measured.value) : measured.missing;
}

function formatPeak(bytes: number | undefined): string {
  return bytes === undefined ? 'memory not measured' : `${formatMB(bytes)} peak`;
}
