import type { VNode } from 'preact';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import type {
  Brick,
  BrickState,
  DashboardData,
  ProofAge,
} from '../../reading/dashboard/dashboard-data.ts';
import { dayText, timeText } from '../../reading/dashboard/periods.ts';
import { LATE_MS } from '../../reading/late.ts';
import { Bricks } from '../charts/bricks.tsx';
import { Columns } from '../charts/columns.tsx';
import { AgeDots } from '../charts/dots.tsx';
import { Figure, NumberTable } from '../charts/figure.tsx';
import { each, found, timeLabels } from './labels.ts';

/** How long ago each folder was compared with the service. */
export function ProofsPanel({
  proofs,
  now,
  zone,
}: {
  readonly proofs: readonly ProofAge[];
  readonly now: number;
  readonly zone: string;
}): VNode {
  const ageOf = ({ at }: ProofAge): number | null => (at === null ? null : Math.max(0, now - at));
  const isLate = (proof: ProofAge): boolean => {
    const age = ageOf(proof);
    return age === null || age > LATE_MS || !proof.complete;
  };
  const said = (proof: ProofAge): string => {
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

/** Is this program a good guest of the service. */
export function RequestsPanel({
  data,
  zone,
}: {
  readonly data: DashboardData['requests'];
  readonly zone: string;
}): VNode {
  const { unit, periods, since, perMinute, gates } = data;
  const known = periods.filter(({ requests }) => requests !== null);
  const sum = (of: 'requests' | 'refused' | 'failed'): number =>
    periods.reduce((total, period) => total + (period[of] ?? 0), 0);
  const budget = perMinute === null ? null : perMinute * 60 * UNIT_HOURS[unit];
  const most = Math.max(0, ...periods.map(({ requests }) => requests ?? 0));
  // A budget far above what was used would press the bars flat: then a sentence has it.
  const isNear = budget !== null && budget <= most * 12;
  const share = budget === null ? null : sum('requests') / (budget * Math.max(1, known.length));
  return (
    <Figure
      name={`Requests ${each(unit)}`}
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
                : [`The budget is ${count(budget)} ${each(unit)}.`]),
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

/** What each kind of brick is called and filled with, in the order of the key. */
const BRICKS: readonly (readonly [state: BrickState, name: string, fill: string])[] = [
  ['recent', 'read back within 26 h', 'b-recent'],
  ['earlier', 'longer ago', 'b-earlier'],
  ['partly', 'in part', 'b-partly'],
  ['never', 'never', 'b-never'],
  ['open', 'still written to', 'b-open'],
  ['damaged', 'damaged', 'b-damaged'],
];
const FILL_OF = new Map(BRICKS.map(([state, , fill]) => [state, fill]));
/** Bricks of a wall: more cannot be told apart. */
const MOST_BRICKS = 600;

/** What of the log was read back, and when. */
export function VerificationPanel({
  data,
  zone,
}: {
  readonly data: DashboardData['verification'];
  readonly zone: string;
}): VNode {
  const { bricks, fullAt, findings } = data;
  const byState = Map.groupBy(bricks, ({ state }) => state);
  const said = ({ segment, bytes: size, state, at }: Brick): string => {
    const name = BRICKS.find(([known]) => known === state)?.[1] ?? '';
    return `segment ${segment}, ${bytes(size)}: ${name}${at === null ? '' : `, ${timeText(at, zone)}`}`;
  };
  const shown = bricks.slice(-MOST_BRICKS);
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
        ...(shown.length < bricks.length ? [`The last ${count(MOST_BRICKS)} are drawn.`] : []),
      ].join(' ')}
      table={
        <NumberTable
          head={['segment', 'size', 'read back', 'state']}
          rows={bricks
            .slice(-MOST_BRICKS)
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
