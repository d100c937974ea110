import type { ComponentChildren } from 'preact';
import { bytes, count, counted, span, twoDigits } from '../../core/text.ts';
import { LATE_MS } from '../../verify/issues.ts';
import type { DashboardData, Series } from '../dashboard.ts';
import {
  dayText,
  type Period,
  type ProofState,
  RANGES,
  type Range,
  type StoredBytes,
  timeText,
  type Unit,
} from '../dashboard-data.ts';
import { pageAddress } from '../query-text.ts';
import {
  AgeDots,
  Bars,
  Columns,
  Diverging,
  FILLS,
  Figure,
  Heat,
  type Line,
  Lines,
  labelPositions,
  type Mark,
  OptionalLink,
  ProofWall,
  StackedArea,
  Textures,
} from './charts.tsx';
import { Icon, Link, Strip, Table } from './elements.tsx';
import type { PageOf } from './page.ts';
import { Shell } from './shell.tsx';

type Dashboard = PageOf<'dashboard'>;

interface PanelProps<K extends keyof DashboardData> {
  readonly data: DashboardData[K];
  readonly zone: string;
}

function link(query: string): string;
function link(query: string | null): string | null;
function link(query: string | null): string | null {
  return query === null ? null : pageAddress('/mail', { q: query });
}

function combineTerms(query: string, term: string): string {
  return `${query} ${term}`.trim();
}

function sum(values: readonly (number | null)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? 0), 0);
}

/** Maximum labels that fit below a narrow chart. Long ones include a year or an hour. */
const [MAX_LONG_LABELS, MAX_LABELS] = [3, 4];

function timeLabels(unit: Unit, periods: readonly Period[], zone: string): Mark[] {
  const { length } = periods;
  if (unit === 'month' && length > 24) {
    const years = periods.flatMap(({ label }, at) =>
      label.startsWith('Jan ') ? [{ at: at / length, text: label.slice(4) }] : [],
    );
    return labelPositions(years.length, MAX_LABELS + 2).flatMap((at) => years[at] ?? []);
  }
  const textOf = {
    hour: ({ from }: Period) => timeText(from, zone).replace(/ \d{4} /, ' '),
    day: ({ from }: Period) => dayText(from, zone).replace(/ \d{4}$/, ''),
    week: ({ from }: Period) => dayText(from, zone).replace(/ \d{4}$/, ''),
    // Three labels such as `Mar ’26` fit below the narrowest chart.
    month: ({ label }: Period) => label.replace(/ \d\d(\d\d)$/, ' ’$1'),
  }[unit];
  const isLong = unit === 'hour' || unit === 'month';
  return labelPositions(length, isLong ? MAX_LONG_LABELS : MAX_LABELS).flatMap((at) => {
    const period = periods[at];
    return period === undefined ? [] : [{ at: (at + 0.5) / length, text: textOf(period) }];
  });
}

const EACH: Readonly<Record<Unit, string>> = {
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
};

function KeptPanel({ data, zone }: PanelProps<'kept'>) {
  const { unit, periods, mailboxes, ended, total, shared } = data;
  const all = [...mailboxes, ...(ended.count > 0 ? [ended] : [])].map((series, at) => ({
    ...series,
    fill: series === ended ? 'f-ended' : (FILLS[at] ?? 'f-5'),
    href: link(series.query),
  }));
  const columns = [...all, total];
  // For an old archive, the table would consist mostly of empty periods.
  const rows = periods.flatMap(({ label, term }, at) => {
    const cells = columns.map(
      ({ counts, query }) => [count(counts[at] ?? 0), link(combineTerms(query, term))] as const,
    );
    return (total.counts[at] ?? 0) === 0 ? [] : [[label, ...cells]];
  });
  return (
    <Figure
      name="Messages kept"
      wide={8}
      keys={all}
      note={
        <>
          <Link to={link(total.query)}>{counted(total.count, 'message')}</Link> by {unit} received
        </>
      }
      remark={
        shared === 0
          ? null
          : `${counted(shared, 'message')} in several mailboxes: counted in each of them.`
      }
      table={{ head: [unit, ...columns.map(({ name }) => name)], rows: rows.toReversed() }}
    >
      <StackedArea
        height={170}
        layers={all.map((series) => ({ ...series, values: runningTotals(series) }))}
        columns={periods.map(({ label, term }, at) => ({
          title: `${label}: ${all.map(({ name, counts }) => `${count(counts[at] ?? 0)} ${name}`).join(', ')}`,
          href: link(combineTerms(total.query, term)),
        }))}
        labels={timeLabels(unit, periods, zone)}
      />
    </Figure>
  );
}

function runningTotals({ before, counts }: Series): number[] {
  const sums = [before];
  for (const added of counts) sums.push((sums.at(-1) ?? 0) + added);
  return sums;
}

function GigabytesPanel({ data, unit, zone }: PanelProps<'gigabytes'> & { unit: Unit }) {
  const { periods, mail, disk, mailNow, diskNow } = data;
  const [from, to] = [periods[0]?.from ?? 0, periods.at(-1)?.to ?? 1];
  const shareOf = (at: number): number => Math.min(1, Math.max(0, (at - from) / (to - from)));
  const first = disk[0];
  const lines: Line[] = [
    {
      name: 'mail',
      class: 'l-2',
      points: mail.map((size, at) => [(at + 1) / mail.length, size]),
    },
  ];
  if (first !== undefined)
    lines.push({
      name: 'on disk',
      class: 'l-1',
      points: disk.map(({ at, bytes: size }) => [shareOf(at), size]),
    });
  const diskIn = ({ from, to }: Period): string => {
    const last = disk.findLast(({ at }) => at >= from && at < to);
    return last === undefined ? '' : bytes(last.bytes);
  };
  const rows = periods.map((period, at) => [
    period.label,
    bytes(mail[at] ?? 0),
    ...(first === undefined ? [] : [diskIn(period)]),
  ]);
  return (
    <Figure
      name="Bytes"
      wide={4}
      note={`${bytes(mailNow)} of mail${diskNow === null ? '' : ` on ${bytes(diskNow)} of disk`}`}
      remark={
        diskNow === null
          ? 'The disk is not shown: all mailboxes share it.'
          : first === undefined
            ? 'No sample of the disk yet: each sync takes one a day.'
            : `The disk is sampled once a day, since ${dayText(first.at, zone)}.`
      }
      table={{ head: [unit, ...lines.map(({ name }) => name)], rows: rows.toReversed() }}
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

function ChangesPanel({ data, zone }: PanelProps<'changes'>) {
  const { unit, periods, stored, ended, asOf, since, cut, all } = data;
  const known = stored.findIndex((value) => value !== null);
  const text = (value: number | null): string => (value === null ? 'not known' : count(value));
  const linked = (value: number | null, query: string | undefined): string | null =>
    value === null || value === 0 || query === undefined ? null : link(query);
  const pairs = periods.map(({ label }, at) => {
    const [up, down] = [stored[at] ?? null, ended[at] ?? null];
    return {
      label,
      title: `${label}: ${text(up)} new, ${text(down)} deleted`,
      up,
      down,
      upHref: linked(up, data.found[at]?.stored),
      downHref: linked(down, data.found[at]?.ended),
    };
  });
  const key = (name: string, values: typeof stored, fill: string, query: string | undefined) => {
    const total = sum(values);
    return { name, count: total, fill, href: linked(total, query) };
  };
  return (
    <Figure
      name={`New and deleted ${EACH[unit]}`}
      wide={6}
      keys={[
        key('new here', stored, 'f-1', all.stored),
        key('deleted at the service', ended, 'f-gone', all.ended),
      ]}
      note={`by ${unit} of the sync`}
      remark={
        known < 0
          ? cut
            ? 'More changed at once than is counted here.'
            : 'Nothing was synced yet.'
          : cut
            ? `More changed before ${dayText(periods[known]?.from ?? 0, zone)} than is counted here.`
            : since !== null && since > (periods[0]?.from ?? 0)
              ? `The archive began on ${dayText(since, zone)}.`
              : null
      }
      table={{
        head: [unit, 'new here', 'deleted at the service'],
        rows: pairs
          .map(({ label, up, down, upHref, downHref }, at) => [
            [label, link(asOf[at] ?? '')] as const,
            [text(up), upHref] as const,
            [text(down), downHref] as const,
          ])
          .toReversed(),
      }}
    >
      <Diverging height={130} pairs={pairs} labels={timeLabels(unit, periods, zone)} />
    </Figure>
  );
}

interface StorageProps {
  readonly name: string;
  readonly rows: readonly StoredBytes[];
  readonly note: string;
  readonly remark?: string | null;
}

function StoragePanel({ name, rows, note, remark = null }: StorageProps) {
  return (
    <Figure
      name={name}
      wide={4}
      note={note}
      remark={rows.length === 0 ? (remark ?? 'Nothing yet.') : remark}
      table={
        rows.length > 0 && {
          head: ['name', 'messages', 'bytes'],
          rows: rows.map((row) => [
            [row.name, link(row.query)],
            row.messages === null ? '' : [count(row.messages), link(row.query)],
            bytes(row.bytes),
          ]),
        }
      }
    >
      <Bars
        rows={rows.map((row) => {
          const messages = row.messages === null ? '' : ` in ${counted(row.messages, 'message')}`;
          const [href, text] = [link(row.query), bytes(row.bytes)];
          const fill = href === null ? 'f-none' : (FILLS[row.series ?? 0] ?? 'f-5');
          const title = `${row.name}: ${text}${messages}`;
          return { name: row.name, href, text, parts: [{ value: row.bytes, fill, href, title }] };
        })}
      />
    </Figure>
  );
}

function CorrespondentsPanel({
  data,
  base,
}: Pick<PanelProps<'correspondents'>, 'data'> & { base: string }) {
  const { years, people, term } = data;
  const rows = people.map(({ address, from, to, fromQuery, toQuery }) => {
    const linked = (query: string | null) =>
      link(query === null ? null : combineTerms(base, combineTerms(query, term)));
    return { address, from, to, fromHref: linked(fromQuery), toHref: linked(toQuery) };
  });
  return (
    <Figure
      name="Correspondents"
      wide={6}
      keys={[
        { name: 'from them', fill: 'f-1' },
        { name: 'to them', fill: 'f-2' },
      ]}
      note={term === '' ? years : `${years}, by calendar year`}
      remark={people.length === 0 ? 'Nobody yet.' : null}
      table={
        people.length > 0 && {
          head: ['address', 'from', 'to'],
          rows: rows.map(({ address, from, to, fromHref, toHref }) => [
            address,
            [count(from), fromHref],
            [count(to), toHref],
          ]),
        }
      }
    >
      <Bars
        rows={rows.map(({ address, from, to, fromHref, toHref }) => {
          const part = (value: number, direction: string, fill: string, href: string | null) => {
            const title = `${counted(value, 'message')} ${direction} ${address}`;
            return { value, fill, href, title };
          };
          return {
            name: address,
            href: from > 0 ? fromHref : toHref,
            text: `${count(from)} + ${count(to)}`,
            parts: [part(from, 'from', 'f-1', fromHref), part(to, 'to', 'f-2', toHref)],
          };
        })}
      />
    </Figure>
  );
}

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const HOURS = Array.from({ length: 24 }, (_, hour) => `${twoDigits(hour)}:00`);

function RhythmPanel({ data, zone }: PanelProps<'rhythm'>) {
  const { counts, from, cut, query } = data;
  const all = counted(sum(counts.flat()), 'message');
  return (
    <Figure
      name="When mail comes"
      wide={6}
      note={
        <>
          {query === null ? all : <Link to={link(query)}>{all}</Link>} since {dayText(from, zone)},
          time of {zone}
        </>
      }
      remark={cut ? 'The newest fifty thousand messages.' : null}
      table={{
        head: ['hour', ...WEEKDAYS],
        rows: HOURS.map((hour, at) => [hour, ...counts.map((day) => count(day[at] ?? 0))]),
      }}
    >
      <Heat
        rows={WEEKDAYS}
        columns={HOURS}
        counts={counts}
        titleOf={(row, column) =>
          `${WEEKDAYS[row]} ${HOURS[column]}: ${counted(counts[row]?.[column] ?? 0, 'message')}`
        }
      />
    </Figure>
  );
}

function QuarantinePanel({ data, zone }: PanelProps<'quarantine'>) {
  const { count: all, entries } = data;
  return (
    <Figure
      name="Quarantine"
      wide={12}
      id="quarantine"
      note={all === 0 ? 'empty' : `${counted(all, 'message')}, tried again by every sync`}
      remark={
        all === 0
          ? 'Every message that the service showed was fetched completely.'
          : all > entries.length
            ? `${count(all - entries.length)} more: "mailkeep quarantine" lists them.`
            : null
      }
    >
      {entries.length > 0 && (
        <section class="scroll" tabindex={0} aria-label="Messages in quarantine">
          <Table
            rows={entries}
            columns={[
              ['Since', ({ since }) => dayText(since, zone)],
              [
                'Place',
                ({ address, folder, uid }) => (
                  <bdi>
                    {address} / {folder}, uid {uid}
                  </bdi>
                ),
                'wrap',
              ],
              [
                'Why',
                ({ reason, detail }) => (
                  <bdi>
                    {reason}: {detail}
                  </bdi>
                ),
                'wrap',
              ],
              ['Tries', ({ tries }) => count(tries), 'r'],
            ]}
          />
        </section>
      )}
    </Figure>
  );
}

function ProofsPanel({ data, now, zone }: PanelProps<'proofs'> & { now: number }) {
  const proofs = data.map(({ address, folder, query, at, complete }) => {
    const age = at === null ? null : Math.max(0, now - at);
    const comparison = age === null ? 'never compared' : `compared ${span(age)} ago`;
    return {
      at,
      age,
      complete,
      late: age === null || age > LATE_MS || !complete,
      name: `${address} / ${folder}`,
      text: complete ? comparison : `${comparison}, not complete`,
      href: link(query),
    };
  });
  const lateProofs = proofs.filter((proof) => proof.late);
  const [worst] = lateProofs;
  const isNone = proofs.length === 0;
  return (
    <Figure
      name="Age of the last comparison"
      wide={6}
      keys={[
        { name: 'a folder', fill: 'f-1' },
        ...(lateProofs.length > 0 ? [{ name: 'late or not complete', fill: 'f-warn' }] : []),
      ]}
      note={
        isNone
          ? undefined
          : `${count(proofs.length - lateProofs.length)} of ${count(proofs.length)} complete within 26 h`
      }
      remark={
        isNone
          ? 'No folder is compared with a service: the mail came from files.'
          : worst && `Longest: ${worst.name}, ${worst.text}.`
      }
      table={
        !isNone && {
          head: ['folder', 'compared', 'complete'],
          rows: proofs.map(({ name, href, at, complete }) => [
            [name, href],
            at === null ? 'never' : timeText(at, zone),
            complete ? 'yes' : 'no',
          ]),
        }
      }
    >
      {!isNone && (
        <AgeDots
          height={118}
          limit={{ age: LATE_MS, text: '26 h' }}
          dots={proofs.map((proof) => ({ ...proof, title: `${proof.name}: ${proof.text}` }))}
        />
      )}
    </Figure>
  );
}

const UNIT_HOURS = { hour: 1, day: 24, week: 168, month: 720 } as const;

function RequestsPanel({ data, zone }: PanelProps<'requests'>) {
  const { unit, periods, since, perMinute, gates } = data;
  const known = periods.filter(({ requests }) => requests !== null);
  const [requests, refused, failed] = (['requests', 'refused', 'failed'] as const).map((of) =>
    sum(periods.map((period) => period[of])),
  ) as [number, number, number];
  const budget = perMinute === null ? null : perMinute * 60 * UNIT_HOURS[unit];
  const most = Math.max(0, ...periods.map((period) => period.requests ?? 0));
  // A budget far above the usage would flatten the bars, so a sentence states it instead.
  const isNear = budget !== null && budget <= most * 12;
  const used =
    budget === null
      ? ''
      : `, ${shareText(requests / (budget * Math.max(1, known.length)))} of the budget`;
  const remarks = [
    ...(budget === null || isNear ? [] : [`The budget is ${count(budget)} ${EACH[unit]}.`]),
    ...(since !== null && since > (periods[0]?.from ?? 0)
      ? [`Known since ${dayText(since, zone)}.`]
      : []),
    ...(failed > 0 ? [`${counted(failed, 'request')} failed.`] : []),
  ];
  return (
    <Figure
      name={`Requests ${EACH[unit]}`}
      wide={6}
      keys={refused > 0 ? [{ name: 'refused', count: refused, fill: 'f-warn' }] : []}
      note={
        since === null ? undefined : `${count(requests)} in ${counted(known.length, unit)}${used}`
      }
      remark={
        since === null
          ? 'None is remembered: requests are counted by each sync from now on.'
          : remarks.join(' ') || null
      }
      table={
        since !== null && {
          head: [unit, 'requests', 'refused (429)', 'failed'],
          rows: [
            ...gates.map((one) => [one.gate, count(one.requests), count(one.refused), '']),
            ...known
              .map((period) => [
                period.label,
                count(period.requests ?? 0),
                count(period.refused),
                count(period.failed),
              ])
              .toReversed(),
          ],
        }
      }
    >
      {since !== null && (
        <Columns
          height={106}
          limit={
            isNear && perMinute !== null
              ? { value: budget, text: `budget: ${count(perMinute)} a minute` }
              : null
          }
          bars={periods.map(({ label, requests: value, refused: marked, failed: lost }) => ({
            title: `${label}: ${value === null ? 'not known' : counted(value, 'request')}${marked > 0 ? `, ${count(marked)} refused` : ''}${lost > 0 ? `, ${count(lost)} failed` : ''}`,
            value,
            marked,
          }))}
          labels={timeLabels(unit, periods, zone)}
        />
      )}
    </Figure>
  );
}

function shareText(share: number): string {
  const per = share * 100;
  if (per === 0) return '0 %';
  return per < 1 ? 'less than 1 %' : `${Math.round(per)} %`;
}

const BRICKS: Readonly<Record<ProofState, string>> = {
  recent: 'read back within 26 h',
  earlier: 'longer ago',
  partly: 'in part',
  never: 'never',
  open: 'still written to',
  damaged: 'damaged',
};
/** Maximum bricks that can still be told apart. */
const MAX_BRICKS = 600;

function VerificationPanel({ data, zone }: PanelProps<'verification'>) {
  const { bricks, fullAt, findings } = data;
  const shown = bricks.slice(-MAX_BRICKS).map(({ segment, bytes: size, state, at }) => ({
    segment,
    size: bytes(size),
    name: BRICKS[state],
    class: `b-${state}`,
    when: at === null ? '' : timeText(at, zone),
  }));
  return (
    <Figure
      name="Verification"
      wide={6}
      keys={Object.entries(BRICKS).flatMap(([state, name]) => {
        const number = bricks.filter((brick) => brick.state === state).length;
        return number === 0 && state !== 'damaged'
          ? []
          : { name, count: number, fill: `b-${state}` };
      })}
      note={fullAt === null ? 'never completely' : `complete ${timeText(fullAt, zone)}`}
      remark={[
        'A brick is a segment of the log.',
        ...(findings > 0 ? [`${counted(findings, 'finding')}: see Health.`] : []),
        ...(shown.length < bricks.length ? [`The last ${count(MAX_BRICKS)} are drawn.`] : []),
      ].join(' ')}
      table={{
        head: ['segment', 'size', 'read back', 'state'],
        rows: shown
          .map(({ segment, size, when, name }) => [String(segment), size, when, name])
          .toReversed(),
      }}
    >
      <ProofWall
        bricks={shown.map(({ segment, size, name, when, ...brick }) => ({
          ...brick,
          title: `segment ${segment}, ${size}: ${name}${when === '' ? '' : `, ${when}`}`,
        }))}
      />
    </Figure>
  );
}

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
  const all = (article: string) => (
    <>
      <Link to={address(page, '', page.range)}>{article} dashboard of all mailboxes</Link>.
    </>
  );
  return (
    <>
      <h1>Dashboard</h1>
      <div class="strip warn">
        <Icon name="alert" />
        <div>
          <strong>
            {problem?.message ?? 'The dashboard counts mailboxes and accounts, as they are now.'}
          </strong>
          {problem === null ? (
            <p>
              <Link to={link(query)}>
                See what <bdi>{query}</bdi> finds
              </Link>
              , or {all('the')}
            </p>
          ) : (
            <p>
              {problem.suggestion !== null && (
                <>
                  <Link to={address(page, problem.suggestion.query, page.range)}>
                    Did you mean <bdi>{problem.suggestion.text}</bdi>?
                  </Link>{' '}
                </>
              )}
              {all('The')}
            </p>
          )}
        </div>
      </div>
    </>
  );
}

interface NumbersProps {
  readonly page: Dashboard;
  readonly data: DashboardData;
}

function Numbers({ page, data }: NumbersProps) {
  const { zone, now, base } = page;
  const { storage } = data;
  const isEmpty = data.kept.total.count === 0;
  return (
    <>
      <Textures />
      <Head page={page} data={data} />
      <Equation consistency={data.consistency} />
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

function Head({ page, data: { consistency, kept } }: NumbersProps) {
  const { range, mailboxes, now } = page;
  const { incomplete, comparedAt, equation } = consistency;
  const shown = page.frame.query.trim();
  const choice = (name: ComponentChildren, query: string, of: Range | null, isChosen: boolean) => (
    <a key={query} href={address(page, query, of)} aria-current={isChosen ? 'true' : undefined}>
      {name}
    </a>
  );
  const choiceOf = (mailbox: Dashboard['mailboxes'][number]) =>
    choice(<bdi>{mailbox.name}</bdi>, mailbox.query, range, shown === mailbox.query);
  return (
    <div class="head">
      <div class="says">
        <h1>
          {kept.total.count === 0
            ? 'Nothing is archived yet'
            : incomplete > 0
              ? `${counted(incomplete, 'folder')} not complete`
              : equation.unread === '' && equation.isEqual
                ? 'The archive adds up'
                : 'Not everything is archived yet'}
        </h1>
        <p class="muted">
          {counted(consistency.mailboxes, 'mailbox', 'mailboxes')},{' '}
          {counted(consistency.folders, 'folder')}
          {comparedAt !== null &&
            `, compared with the service ${span(Math.max(0, now - comparedAt))} ago`}
        </p>
      </div>
      <div class="controls">
        {mailboxes.length > 1 && (
          <nav class="seg" aria-label="Mailbox">
            {choice('All mailboxes', '', range, shown === '')}
            {mailboxes.map(choiceOf)}
          </nav>
        )}
        <nav class="seg" aria-label="Time">
          {choice('Overview', page.frame.query, null, range === null)}
          {RANGES.map((one) => choice(RANGE_NAMES[one], page.frame.query, one, range === one))}
        </nav>
      </div>
    </div>
  );
}

const TERM_LINKS: Readonly<Record<string, string>> = {
  assumed: '/health/folders',
  quarantined: '#quarantine',
};
const TERM_CLASSES: Readonly<Record<string, string>> = { stored: 'k', quarantined: 'w' };

function Equation({ consistency }: { consistency: DashboardData['consistency'] }) {
  const { imported, ended, endedQuery } = consistency;
  const { atService, terms, pending, unread, isEqual } = consistency.equation;
  const term = (number: number, text: string, kind?: string, href?: string) => (
    <span class={kind === undefined ? 'term' : `term ${kind}`}>
      <strong>
        <OptionalLink href={href}>{count(number)}</OptionalLink>
      </strong>{' '}
      <span>{text}</span>
    </span>
  );
  return (
    <div class="eq">
      {(atService + pending > 0 || unread !== '' || imported === 0) && (
        <p class="sum">
          {unread === '' &&
            term(atService, `${atService === 1 ? 'message' : 'messages'} at the service`)}
          {terms.map(({ kind, count: messages, text }, i) => (
            <>
              {i > 0 ? <i>+</i> : unread === '' && <i>{isEqual ? '=' : '≠'}</i>}
              {term(messages, text, TERM_CLASSES[kind] ?? '', TERM_LINKS[kind])}
            </>
          ))}
          {unread !== '' && (
            <>
              <i>of</i>
              {term(atService, `${atService === 1 ? 'message' : 'messages'} listed at the service`)}
            </>
          )}
        </p>
      )}
      {unread !== '' && <p class="sum">{unread}</p>}
      {pending > 0 && (
        <p class="sum">
          {term(
            pending,
            pending === 1 ? 'pending deletion' : 'pending deletions',
            'w',
            '/health/held',
          )}
        </p>
      )}
      {imported > 0 && <p class="sum">{term(imported, 'imported from files')}</p>}
      {ended > 0 && (
        <p class="sum e">
          {term(ended, 'deleted there, kept only here', undefined, link(endedQuery))}
        </p>
      )}
    </div>
  );
}
