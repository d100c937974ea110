import type { VNode } from 'preact';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { two } from '../../../wording/dates.ts';
import type { DashboardData, StoredBytes } from '../../reading/dashboard/dashboard-data.ts';
import { dayText } from '../../reading/dashboard/periods.ts';
import { Bars } from '../charts/bars.tsx';
import { Figure, NumberTable } from '../charts/figure.tsx';
import { Heat } from '../charts/heat.tsx';
import { FILLS } from '../charts/plot.tsx';
import { found } from './labels.ts';

/** Where the bytes go. */
export function StoragePanel({
  name,
  rows,
  note,
  remark = null,
}: {
  readonly name: string;
  readonly rows: readonly StoredBytes[];
  readonly note: string;
  readonly remark?: string | null;
}): VNode {
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

/** Who matters. */
export function CorrespondentsPanel({
  data,
  narrow,
}: {
  readonly data: DashboardData['correspondents'];
  readonly narrow: (query: string) => string;
}): VNode {
  const { years, people, term } = data;
  const linked = (query: string | null): string | null =>
    query === null ? null : found(narrow(`${query} ${term}`.trim()));
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

/** When mail comes. */
export function RhythmPanel({
  data,
  zone,
}: {
  readonly data: DashboardData['rhythm'];
  readonly zone: string;
}): VNode {
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
            <a class="link" href={found(query)}>
              {counted(all, 'message')}
            </a>
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

/** What could not be fetched. */
export function QuarantinePanel({
  data,
  zone,
}: {
  readonly data: DashboardData['quarantine'];
  readonly zone: string;
}): VNode {
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
