import type { VNode } from 'preact';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import type { DashboardData, Series } from '../../reading/dashboard/dashboard-data.ts';
import { dayText, type Period } from '../../reading/dashboard/periods.ts';
import { StackedArea } from '../charts/area.tsx';
import { Diverging } from '../charts/diverging.tsx';
import { Figure, NumberTable } from '../charts/figure.tsx';
import { type Line, Lines } from '../charts/lines.tsx';
import { FILLS } from '../charts/plot.tsx';
import { each, found, joined, timeLabels } from './labels.ts';

interface Of<K extends keyof DashboardData> {
  readonly data: DashboardData[K];
  /** IANA name of the zone in which days begin. */
  readonly zone: string;
}

/** Messages by mailbox, and what is kept only here on top. */
export function KeptPanel({ data, zone }: Of<'kept'>): VNode {
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
          <a class="link" href={found(total.query)}>
            {counted(total.count, 'message')}
          </a>{' '}
          by {unit} received
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

/** How much there is, and how much room it takes. */
export function GigabytesPanel({
  data,
  unit,
  zone,
}: Of<'gigabytes'> & { readonly unit: DashboardData['kept']['unit'] }): VNode {
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

/** The last sample of a period, where it has one. */
function diskAt(disk: DashboardData['gigabytes']['disk'], { from, to }: Period): string {
  const last = disk.findLast(({ at }) => at >= from && at < to);
  return last === undefined ? '' : bytes(last.bytes);
}

/** What came and what went: a deletion that one would miss. */
export function ChangesPanel({ data, zone }: Of<'changes'>): VNode {
  const { unit, periods, stored, ended, asOf, since, cut, all } = data;
  const sum = (list: readonly (number | null)[]): number =>
    list.reduce<number>((total, one) => total + (one ?? 0), 0);
  const isKnown = stored.some((one) => one !== null);
  const firstKnown = periods[stored.findIndex((one) => one !== null)];
  const text = (value: number | null | undefined): string =>
    value == null ? 'not known' : count(value);
  /** Nothing is no link: there is nothing to see. */
  const linked = (value: number | null | undefined, query: string | undefined): string | null =>
    value == null || value === 0 || query === undefined ? null : found(query);
  const hrefs = periods.map((_, at) => ({
    up: linked(stored[at], data.found[at]?.stored),
    down: linked(ended[at], data.found[at]?.ended),
  }));
  return (
    <Figure
      name={`New and deleted ${each(unit)}`}
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
