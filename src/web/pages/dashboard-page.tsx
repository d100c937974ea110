import { bytes, closingEquation, count, counted, span } from '../../core/text.ts';
import type { DashboardData, Series } from '../dashboard.ts';
import { dayText, type Period, RANGES, type Range, timeText } from '../dashboard-data.ts';
import { pageAddress } from '../query-text.ts';
import { FILLS, Figure, Linked, NumberTable, Textures } from './chart-frame.tsx';
import { Diverging, type Line, Lines, StackedArea } from './charts.tsx';
import {
  CorrespondentsPanel,
  EACH,
  found,
  joined,
  type Of,
  ProofsPanel,
  QuarantinePanel,
  RequestsPanel,
  RhythmPanel,
  StoragePanel,
  timeLabels,
  VerificationPanel,
} from './dashboard-panels.tsx';
import { Icon, Link, Strip } from './icons.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';

function KeptPanel({ data, zone }: Of<'kept'>) {
  const { unit, periods, mailboxes, ended, total, shared } = data;
  const all: readonly Series[] = ended.count > 0 ? [...mailboxes, ended] : mailboxes;
  const fillOf = (series: Series, at: number): string =>
    series === ended ? 'f-ended' : (FILLS[at] ?? 'f-5');
  const layers = all.map((series, at) => ({
    name: series.name,
    fill: fillOf(series, at),
    values: running(series),
  }));
  const columns = periods.map(({ label, term }, at) => ({
    title: `${label}: ${all.map(({ name, counts }) => `${count(counts[at] ?? 0)} ${name}`).join(', ')}`,
    href: found(joined(total.query, term)),
  }));
  const columnsOfTable = [...all, total];
  const rows = periods.flatMap(({ label, term }, at) =>
    // Periods without mail would fill the table of an old archive.
    (total.counts[at] ?? 0) === 0
      ? []
      : [
          [
            { text: label },
            ...columnsOfTable.map(({ counts, query }) => ({
              text: count(counts[at] ?? 0),
              href: found(joined(query, term)),
            })),
          ],
        ],
  );
  return (
    <Figure
      name="Messages kept"
      wide={8}
      keys={all.map((series, at) => ({
        name: series.name,
        count: series.count,
        fill: fillOf(series, at),
        href: found(series.query),
      }))}
      note={
        <>
          <Link to={found(total.query)}>{counted(total.count, 'message')}</Link> by {unit} received
        </>
      }
      remark={
        shared === 0
          ? null
          : `${counted(shared, 'message')} in several mailboxes: counted in each of them.`
      }
      table={
        <NumberTable
          head={[unit, ...columnsOfTable.map(({ name }) => name)]}
          rows={rows.toReversed()}
        />
      }
    >
      <StackedArea
        height={170}
        layers={layers}
        columns={columns}
        labels={timeLabels(unit, periods, zone)}
      />
    </Figure>
  );
}

function running({ before, counts }: Series): number[] {
  let sum = before;
  return [
    sum,
    ...counts.map((one) => {
      sum += one;
      return sum;
    }),
  ];
}

function GigabytesPanel({
  data,
  unit,
  zone,
}: Of<'gigabytes'> & { unit: DashboardData['kept']['unit'] }) {
  const { periods, mail, disk, mailNow, diskNow } = data;
  const [from, to] = [periods[0]?.from ?? 0, periods.at(-1)?.to ?? 1];
  const shareOf = (at: number): number => Math.min(1, Math.max(0, (at - from) / (to - from)));
  const lines: Line[] = [
    {
      name: 'mail',
      class: 'l-2',
      points: mail.map((sum, at) => [(at + 1) / mail.length, sum]),
    },
  ];
  if (disk.length > 0)
    lines.push({
      name: 'on disk',
      class: 'l-1',
      points: disk.map(({ at, bytes: size }) => [shareOf(at), size]),
    });
  const first = disk[0];
  return (
    <Figure
      name="Bytes"
      wide={4}
      note={
        diskNow === null
          ? `${bytes(mailNow)} of mail`
          : `${bytes(mailNow)} of mail on ${bytes(diskNow)} of disk`
      }
      remark={
        diskNow === null
          ? 'The disk is not shown: all mailboxes share it.'
          : first === undefined
            ? 'No sample of the disk yet: each sync takes one a day.'
            : `The disk is sampled once a day, since ${dayText(first.at, zone)}.`
      }
      table={
        <NumberTable
          head={[unit, 'mail', ...(disk.length > 0 ? ['on disk'] : [])]}
          rows={periods
            .map((period, at) => [
              { text: period.label },
              { text: bytes(mail[at] ?? 0) },
              ...(disk.length > 0 ? [{ text: diskAt(disk, period) }] : []),
            ])
            .toReversed()}
        />
      }
    >
      <Lines
        height={170}
        class="bytes"
        text={(value) => bytes(value).replace('.0 ', ' ')}
        lines={lines}
        labels={timeLabels(unit, periods, zone)}
      />
    </Figure>
  );
}

function diskAt(disk: DashboardData['gigabytes']['disk'], { from, to }: Period): string {
  const last = disk.findLast(({ at }) => at >= from && at < to);
  return last === undefined ? '' : bytes(last.bytes);
}

/** Arrivals and deletions, so that an unexpected deletion stands out. */
function ChangesPanel({ data, zone }: Of<'changes'>) {
  const { unit, periods, stored, ended, asOf, since, cut, all } = data;
  const sum = (list: readonly (number | null)[]): number =>
    list.reduce<number>((total, one) => total + (one ?? 0), 0);
  const isKnown = stored.some((one) => one !== null);
  const firstKnown = periods[stored.findIndex((one) => one !== null)];
  const text = (value: number | null | undefined): string =>
    value == null ? 'not known' : count(value);
  /** A zero has no link, since there is nothing to show. */
  const linked = (value: number | null | undefined, query: string | undefined): string | null =>
    value == null || value === 0 || query === undefined ? null : found(query);
  const hrefs = periods.map((_, at) => ({
    up: linked(stored[at], data.found[at]?.stored),
    down: linked(ended[at], data.found[at]?.ended),
  }));
  return (
    <Figure
      name={`New and deleted ${EACH[unit]}`}
      wide={6}
      keys={[
        {
          name: 'new here',
          count: sum(stored),
          fill: 'f-1',
          href: linked(sum(stored), all.stored),
        },
        {
          name: 'deleted at the service',
          count: sum(ended),
          fill: 'f-gone',
          href: linked(sum(ended), all.ended),
        },
      ]}
      note={`by ${unit} of the sync`}
      remark={
        !isKnown
          ? cut
            ? 'More changed at once than is counted here.'
            : 'Nothing was synced yet.'
          : cut
            ? `More changed before ${dayText(firstKnown?.from ?? 0, zone)} than is counted here.`
            : since !== null && since > (periods[0]?.from ?? 0)
              ? `The archive began on ${dayText(since, zone)}.`
              : null
      }
      table={
        <NumberTable
          head={[unit, 'new here', 'deleted at the service']}
          rows={periods
            .map(({ label }, at) => [
              { text: label, href: found(asOf[at] ?? '') },
              { text: text(stored[at]), href: hrefs[at]?.up ?? null },
              { text: text(ended[at]), href: hrefs[at]?.down ?? null },
            ])
            .toReversed()}
        />
      }
    >
      <Diverging
        height={130}
        pairs={periods.map(({ label }, at) => ({
          title: `${label}: ${text(stored[at])} new, ${text(ended[at])} deleted`,
          up: stored[at] ?? null,
          down: ended[at] ?? null,
          upHref: hrefs[at]?.up ?? null,
          downHref: hrefs[at]?.down ?? null,
        }))}
        labels={timeLabels(unit, periods, zone)}
      />
    </Figure>
  );
}

type Dashboard = PageOf<'dashboard'>;

const RANGE_NAMES: Readonly<Record<Range, string>> = {
  '30d': '30 days',
  '90d': '90 days',
  '1y': 'a year',
  all: 'all',
};

export function DashboardPage({ page }: { page: Dashboard }) {
  const { frame, data } = page;
  return (
    <Shell frame={frame} here="dashboard">
      <div class="page dashboard">
        {data === null ? <NotShown page={page} /> : <Numbers page={page} data={data} />}
        <p class="as-of">
          Numbers as of commit {count(page.commit.number)}
          {page.commit.time !== null && `, ${timeText(page.commit.time, page.zone)}`}. Days begin at
          midnight in {page.zone}
          {page.wrongZone === null ? '' : `, because nobody knows the zone “${page.wrongZone}”`}.
        </p>
      </div>
    </Shell>
  );
}

function address(page: Dashboard, query: string, range: Range | null): string {
  const tz = page.typedZone ?? undefined;
  return pageAddress('/dashboard', { q: query, range: range ?? undefined, tz });
}

function NotShown({ page }: { page: Dashboard }) {
  const { query, problem } = page.frame;
  return (
    <>
      <h1>Dashboard</h1>
      <div class="strip warn">
        <Icon name="alert" />
        <div>
          {problem === null ? (
            <strong>The dashboard counts mailboxes and accounts, as they are now.</strong>
          ) : (
            <strong>{problem.message}</strong>
          )}
          <p>
            {problem === null ? (
              <>
                <Link to={found(query)}>
                  See what <bdi>{query}</bdi> finds
                </Link>
                , or{' '}
              </>
            ) : (
              problem.suggestion !== null && (
                <>
                  <Link to={address(page, problem.suggestion.query, page.range)}>
                    Did you mean <bdi>{problem.suggestion.text}</bdi>?
                  </Link>{' '}
                </>
              )
            )}
            <Link to={address(page, '', page.range)}>
              {problem === null ? 'the' : 'The'} dashboard of all mailboxes
            </Link>
            .
          </p>
        </div>
      </div>
    </>
  );
}

function Numbers({ page, data }: { page: Dashboard; data: NonNullable<Dashboard['data']> }) {
  const { zone, now, base } = page;
  const { storage } = data;
  const isEmpty = data.kept.total.count === 0;
  return (
    <>
      <Textures />
      <Head page={page} closing={data.closing} isEmpty={isEmpty} />
      <Equation closing={data.closing} />
      {isEmpty && (
        <Strip icon="inbox">
          No message is here yet. The charts fill with the first sync or import.
        </Strip>
      )}
      <div class="grid-12">
        <KeptPanel data={data.kept} zone={zone} />
        <GigabytesPanel data={data.gigabytes} unit={data.kept.unit} zone={zone} />
        <ChangesPanel data={data.changes} zone={zone} />
        <ProofsPanel data={data.proofs} now={now} zone={zone} />
        <RequestsPanel data={data.requests} zone={zone} />
        <VerificationPanel data={data.verification} zone={zone} />
        <StoragePanel name="Storage by mailbox" rows={storage.mailboxes} note="raw bytes" />
        <StoragePanel name="Storage by folder" rows={storage.folders} note="raw bytes" />
        <StoragePanel
          name="Storage by type"
          rows={storage.types ?? []}
          note="each attachment once"
          remark={
            storage.types === null
              ? 'These mailboxes alone are not counted: the archive has more than 100,000 attachments, and mailboxes share them.'
              : null
          }
        />
        <CorrespondentsPanel data={data.correspondents} base={base} />
        <RhythmPanel data={data.rhythm} zone={zone} />
        <QuarantinePanel data={data.quarantine} zone={zone} />
      </div>
    </>
  );
}

function Head({
  page,
  closing,
  isEmpty,
}: {
  page: Dashboard;
  closing: DashboardData['closing'];
  isEmpty: boolean;
}) {
  const { frame, range, mailboxes, now } = page;
  const { incomplete, comparedAt } = closing;
  const compared =
    comparedAt === null
      ? ''
      : `, compared with the service ${span(Math.max(0, now - comparedAt))} ago`;
  return (
    <div class="head">
      <div class="says">
        <h1>
          {isEmpty
            ? 'Nothing is archived yet'
            : incomplete > 0
              ? `${counted(incomplete, 'folder')} not complete`
              : 'The archive adds up'}
        </h1>
        <p class="muted">
          {counted(closing.mailboxes, 'mailbox', 'mailboxes')}, {counted(closing.folders, 'folder')}
          {compared}
        </p>
      </div>
      <div class="controls">
        {mailboxes.length > 1 && (
          <nav class="seg" aria-label="Mailbox">
            <a
              href={address(page, '', range)}
              aria-current={frame.query.trim() === '' ? 'true' : undefined}
            >
              All mailboxes
            </a>
            {mailboxes.map(({ name, query }) => (
              <a
                key={query}
                href={address(page, query, range)}
                aria-current={frame.query.trim() === query ? 'true' : undefined}
              >
                <bdi>{name}</bdi>
              </a>
            ))}
          </nav>
        )}
        <nav class="seg" aria-label="Time">
          <a
            href={address(page, frame.query, null)}
            aria-current={range === null ? 'true' : undefined}
          >
            Overview
          </a>
          {RANGES.map((one) => (
            <a
              key={one}
              href={address(page, frame.query, one)}
              aria-current={range === one ? 'true' : undefined}
            >
              {RANGE_NAMES[one]}
            </a>
          ))}
        </nav>
      </div>
    </div>
  );
}

function Equation({ closing }: { closing: DashboardData['closing'] }) {
  const { imported, ended, endedQuery } = closing;
  const { atService, terms, pending } = closingEquation(closing);
  return (
    <div class="eq">
      {(atService + pending > 0 || imported === 0) && (
        <p class="sum">
          <span class="term">
            <strong>{count(atService)}</strong>{' '}
            <span>{atService === 1 ? 'message' : 'messages'} at the service</span>
          </span>
          {terms.map(({ kind, count: messages, text }, i) => (
            <>
              <i>{i === 0 ? '=' : '+'}</i>
              <span key={kind} class={`term ${TERM_CLASSES[kind] ?? ''}`}>
                <strong>
                  <Linked href={TERM_LINKS[kind]}>{count(messages)}</Linked>
                </strong>{' '}
                <span>{text}</span>
              </span>
            </>
          ))}
        </p>
      )}
      {pending > 0 && (
        <p class="sum">
          <span class="term w">
            <strong>
              <a href="/health/held">{count(pending)}</a>
            </strong>{' '}
            <span>{pending === 1 ? 'pending deletion' : 'pending deletions'}</span>
          </span>
        </p>
      )}
      {imported > 0 && (
        <p class="sum">
          <span class="term">
            <strong>{count(imported)}</strong> <span>imported from files</span>
          </span>
        </p>
      )}
      {ended > 0 && (
        <p class="sum e">
          <span class="term">
            <strong>
              <a href={found(endedQuery)}>{count(ended)}</a>
            </strong>{' '}
            <span>deleted there, kept only here</span>
          </span>
        </p>
      )}
    </div>
  );
}

const TERM_LINKS: Readonly<Record<string, string>> = {
  assumed: '/health/folders',
  quarantined: '#quarantine',
};
const TERM_CLASSES: Readonly<Record<string, string>> = { stored: 'k', quarantined: 'w' };
