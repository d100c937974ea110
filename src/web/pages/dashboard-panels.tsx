import { bytes, count, counted, span, two } from '../../core/text.ts';
import type { DashboardData } from '../dashboard.ts';
import {
  type BrickState,
  dayText,
  type Period,
  type StoredBytes,
  timeText,
  type Unit,
} from '../dashboard-data.ts';
import { LATE_MS } from '../issues.ts';
import { pageAddress } from '../query-text.ts';
import { FILLS, Figure, labelled, type Mark, NumberTable } from './chart-frame.tsx';
import { AgeDots, Bars, Bricks, Columns, Heat } from './charts.tsx';
import { Link } from './icons.tsx';

/** Maximum labels of a time axis, so that they fit on a narrow window. */
const MAX_LABELS = 4;
/** Maximum for long labels, with a year or an hour. */
const MAX_LONG_LABELS = 3;

export function found(query: string): string {
  return pageAddress('/mail', { q: query });
}

export function joined(query: string, term: string): string {
  return `${query} ${term}`.trim();
}

/** Returns the labels below bars of time: years for many months, else days or hours. */
export function timeLabels(unit: Unit, periods: readonly Period[], zone: string): Mark[] {
  const count = periods.length;
  if (unit === 'month' && count > 24) return yearLabels(periods);
  const isLong = unit === 'hour' || unit === 'month';
  return labelled(count, isLong ? MAX_LONG_LABELS : MAX_LABELS).map((at) => {
    const from = periods[at]?.from ?? 0;
    const text =
      unit === 'hour'
        ? timeText(from, zone).replace(/ \d{4} /, ' ')
        : unit === 'month'
          ? shortYear(periods[at]?.label ?? '')
          : dayText(from, zone).replace(/ \d{4}$/, '');
    return { at: (at + 0.5) / count, text };
  });
}

/** Returns `Mar ’26` for `Mar 2026`: three of them fit below the narrowest chart. */
function shortYear(label: string): string {
  return label.replace(/ \d\d(\d\d)$/, ' ’$1');
}

function yearLabels(periods: readonly Period[]): Mark[] {
  const years = periods.flatMap(({ label }, at) =>
    label.startsWith('Jan ') ? [{ at: at / periods.length, text: label.slice(4) }] : [],
  );
  return labelled(years.length, MAX_LABELS + 2).flatMap((at) => years[at] ?? []);
}

export const EACH: Readonly<Record<Unit, string>> = {
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
};

export interface Of<K extends keyof DashboardData> {
  readonly data: DashboardData[K];
  /** IANA name of the zone in which days start. */
  readonly zone: string;
}

export function StoragePanel({
  name,
  rows,
  note,
  remark = null,
}: {
  name: string;
  rows: readonly StoredBytes[];
  note: string;
  remark?: string | null;
}) {
  const linked = (query: string | null): string | null => (query === null ? null : found(query));
  return (
    <Figure
      name={name}
      wide={4}
      note={note}
      remark={rows.length === 0 ? (remark ?? 'Nothing yet.') : remark}
      table={
        rows.length === 0 ? null : (
          <NumberTable
            head={['name', 'messages', 'bytes']}
            rows={rows.map((row) => [
              { text: row.name, href: linked(row.query) },
              row.messages === null
                ? { text: '' }
                : { text: count(row.messages), href: linked(row.query) },
              { text: bytes(row.bytes) },
            ])}
          />
        )
      }
    >
      <Bars
        rows={rows.map((row) => ({
          name: row.name,
          href: linked(row.query),
          text: bytes(row.bytes),
          parts: [
            {
              value: row.bytes,
              fill: row.query === null ? 'f-none' : (FILLS[row.series ?? 0] ?? 'f-5'),
              href: linked(row.query),
              title: `${row.name}: ${bytes(row.bytes)}${row.messages === null ? '' : ` in ${counted(row.messages, 'message')}`}`,
            },
          ],
        }))}
      />
    </Figure>
  );
}

export function CorrespondentsPanel({
  data,
  base,
}: Pick<Of<'correspondents'>, 'data'> & { base: string }) {
  const { years, people, term } = data;
  const linked = (query: string | null): string | null =>
    query === null ? null : found(joined(base, joined(query, term)));
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
        people.length === 0 ? null : (
          <NumberTable
            head={['address', 'from', 'to']}
            rows={people.map((one) => [
              { text: one.address },
              { text: count(one.from), href: linked(one.fromQuery) },
              { text: count(one.to), href: linked(one.toQuery) },
            ])}
          />
        )
      }
    >
      <Bars
        rows={people.map((one) => ({
          name: one.address,
          href: linked(one.from > 0 ? one.fromQuery : one.toQuery),
          text: `${count(one.from)} + ${count(one.to)}`,
          parts: [
            {
              value: one.from,
              fill: 'f-1',
              href: linked(one.fromQuery),
              title: `${counted(one.from, 'message')} from ${one.address}`,
            },
            {
              value: one.to,
              fill: 'f-2',
              href: linked(one.toQuery),
              title: `${counted(one.to, 'message')} to ${one.address}`,
            },
          ],
        }))}
      />
    </Figure>
  );
}

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const HOURS = Array.from({ length: 24 }, (_, hour) => `${two(hour)}:00`);

export function RhythmPanel({ data, zone }: Of<'rhythm'>) {
  const { counts, from, cut, query } = data;
  const all = counts.flat().reduce((sum, one) => sum + one, 0);
  return (
    <Figure
      name="When mail comes"
      wide={6}
      note={
        <>
          {query === null ? (
            counted(all, 'message')
          ) : (
            <Link to={found(query)}>{counted(all, 'message')}</Link>
          )}{' '}
          since {dayText(from, zone)}, time of {zone}
        </>
      }
      remark={cut ? 'The newest fifty thousand messages.' : null}
      table={
        <NumberTable
          head={['hour', ...WEEKDAYS]}
          rows={HOURS.map((hour, column) => [
            { text: hour },
            ...counts.map((line) => ({ text: count(line[column] ?? 0) })),
          ])}
        />
      }
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

export function QuarantinePanel({ data, zone }: Of<'quarantine'>) {
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
          <table>
            <thead>
              <tr>
                <th scope="col">Since</th>
                <th scope="col">Place</th>
                <th scope="col">Why</th>
                <th scope="col" class="r">
                  Tries
                </th>
              </tr>
            </thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={`${entry.address} ${entry.folder} ${entry.uid}`}>
                  <td>{dayText(entry.since, zone)}</td>
                  <td>
                    <bdi>
                      {entry.address} / {entry.folder}, uid {entry.uid}
                    </bdi>
                  </td>
                  <td>
                    <bdi>
                      {entry.reason}: {entry.detail}
                    </bdi>
                  </td>
                  <td class="r">{count(entry.tries)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Figure>
  );
}

type Proof = DashboardData['proofs'][number];

export function ProofsPanel({ data: proofs, now, zone }: Of<'proofs'> & { now: number }) {
  const ageOf = ({ at }: Proof): number | null => (at === null ? null : Math.max(0, now - at));
  const isLate = (proof: Proof): boolean => {
    const age = ageOf(proof);
    return age === null || age > LATE_MS || !proof.complete;
  };
  const said = (proof: Proof): string => {
    const age = ageOf(proof);
    const compared = age === null ? 'never compared' : `compared ${span(age)} ago`;
    return proof.complete ? compared : `${compared}, not complete`;
  };
  const late = proofs.filter(isLate);
  const worst = late[0];
  return (
    <Figure
      name="Age of the last comparison"
      wide={6}
      keys={[
        { name: 'a folder', fill: 'f-1' },
        ...(late.length > 0 ? [{ name: 'late or not complete', fill: 'f-warn' }] : []),
      ]}
      note={
        proofs.length === 0
          ? undefined
          : `${count(proofs.length - late.length)} of ${count(proofs.length)} complete within 26 h`
      }
      remark={
        proofs.length === 0
          ? 'No folder is compared with a service: the mail came from files.'
          : worst === undefined
            ? null
            : `Longest: ${worst.address} / ${worst.folder}, ${said(worst)}.`
      }
      table={
        proofs.length === 0 ? null : (
          <NumberTable
            head={['folder', 'compared', 'complete']}
            rows={proofs.map((proof) => [
              {
                text: `${proof.address} / ${proof.folder}`,
                href: proof.query === null ? null : found(proof.query),
              },
              { text: proof.at === null ? 'never' : timeText(proof.at, zone) },
              { text: proof.complete ? 'yes' : 'no' },
            ])}
          />
        )
      }
    >
      {proofs.length > 0 && (
        <AgeDots
          height={118}
          limit={{ age: LATE_MS, text: '26 h' }}
          dots={proofs.map((proof) => ({
            title: `${proof.address} / ${proof.folder}: ${said(proof)}`,
            href: proof.query === null ? null : found(proof.query),
            age: ageOf(proof),
            late: isLate(proof),
          }))}
        />
      )}
    </Figure>
  );
}

const UNIT_HOURS = { hour: 1, day: 24, week: 168, month: 720 } as const;

export function RequestsPanel({ data, zone }: Of<'requests'>) {
  const { unit, periods, since, perMinute, gates } = data;
  const known = periods.filter(({ requests }) => requests !== null);
  const sum = (of: 'requests' | 'refused' | 'failed'): number =>
    periods.reduce((total, period) => total + (period[of] ?? 0), 0);
  const budget = perMinute === null ? null : perMinute * 60 * UNIT_HOURS[unit];
  const most = Math.max(0, ...periods.map(({ requests }) => requests ?? 0));
  // A budget far above the usage would flatten the bars, so a sentence states it instead.
  const isNear = budget !== null && budget <= most * 12;
  const share = budget === null ? null : sum('requests') / (budget * Math.max(1, known.length));
  return (
    <Figure
      name={`Requests ${EACH[unit]}`}
      wide={6}
      keys={sum('refused') > 0 ? [{ name: 'refused', count: sum('refused'), fill: 'f-warn' }] : []}
      note={
        since === null
          ? undefined
          : `${count(sum('requests'))} in ${counted(known.length, unit)}${share === null ? '' : `, ${shareText(share)} of the budget`}`
      }
      remark={
        since === null
          ? 'None is remembered: requests are counted by each sync from now on.'
          : [
              ...(budget === null || isNear
                ? []
                : [`The budget is ${count(budget)} ${EACH[unit]}.`]),
              ...(since > (periods[0]?.from ?? 0) ? [`Known since ${dayText(since, zone)}.`] : []),
              ...(sum('failed') > 0 ? [`${counted(sum('failed'), 'request')} failed.`] : []),
            ].join(' ') || null
      }
      table={
        since === null ? null : (
          <NumberTable
            head={[unit, 'requests', 'refused (429)', 'failed']}
            rows={[
              ...gates.map(({ gate, requests, refused }) => [
                { text: gate },
                { text: count(requests) },
                { text: count(refused) },
                { text: '' },
              ]),
              ...known
                .map((period) => [
                  { text: period.label },
                  { text: count(period.requests ?? 0) },
                  { text: count(period.refused) },
                  { text: count(period.failed) },
                ])
                .toReversed(),
            ]}
          />
        )
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
          bars={periods.map(({ label, requests, refused, failed }) => ({
            title: `${label}: ${requests === null ? 'not known' : counted(requests, 'request')}${refused > 0 ? `, ${count(refused)} refused` : ''}${failed > 0 ? `, ${count(failed)} failed` : ''}`,
            value: requests,
            marked: refused,
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

/** Name and fill of each kind of brick, in the order of the key. */
const BRICKS: readonly (readonly [state: BrickState, name: string, fill: string])[] = [
  ['recent', 'read back within 26 h', 'b-recent'],
  ['earlier', 'longer ago', 'b-earlier'],
  ['partly', 'in part', 'b-partly'],
  ['never', 'never', 'b-never'],
  ['open', 'still written to', 'b-open'],
  ['damaged', 'damaged', 'b-damaged'],
];
const FILL_OF = new Map(BRICKS.map(([state, , fill]) => [state, fill]));
/** Maximum bricks of a wall: more could not be told apart. */
const MAX_BRICKS = 600;

export function VerificationPanel({ data, zone }: Of<'verification'>) {
  const { bricks, fullAt, findings } = data;
  const byState = Map.groupBy(bricks, ({ state }) => state);
  const said = ({
    segment,
    bytes: size,
    state,
    at,
  }: DashboardData['verification']['bricks'][number]): string => {
    const name = BRICKS.find(([known]) => known === state)?.[1] ?? '';
    return `segment ${segment}, ${bytes(size)}: ${name}${at === null ? '' : `, ${timeText(at, zone)}`}`;
  };
  const shown = bricks.slice(-MAX_BRICKS);
  return (
    <Figure
      name="Verification"
      wide={6}
      keys={BRICKS.filter(([state]) => byState.has(state) || state === 'damaged').map(
        ([state, name, fill]) => ({
          name,
          count: byState.get(state)?.length ?? 0,
          fill,
        }),
      )}
      note={fullAt === null ? 'never completely' : `complete ${timeText(fullAt, zone)}`}
      remark={[
        'A brick is a segment of the log.',
        ...(findings > 0 ? [`${counted(findings, 'finding')}: see Health.`] : []),
        ...(shown.length < bricks.length ? [`The last ${count(MAX_BRICKS)} are drawn.`] : []),
      ].join(' ')}
      table={
        <NumberTable
          head={['segment', 'size', 'read back', 'state']}
          rows={bricks
            .slice(-MAX_BRICKS)
            .map((brick) => [
              { text: String(brick.segment) },
              { text: bytes(brick.bytes) },
              { text: brick.at === null ? '' : timeText(brick.at, zone) },
              { text: BRICKS.find(([state]) => state === brick.state)?.[1] ?? '' },
            ])
            .toReversed()}
        />
      }
    >
      <Bricks
        bricks={shown.map((brick) => ({
          title: said(brick),
          class: FILL_OF.get(brick.state) ?? 'b-never',
        }))}
      />
    </Figure>
  );
}
