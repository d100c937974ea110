import type { ComponentChildren, VNode } from 'preact';
import { clockText, count, counted, dayText, weekdayText } from '../../core/text.ts';
import { asOf, asOfWord, pageAddress } from '../query-text.ts';
import { Icon, Link } from './icons.tsx';
import type { Frame } from './page.ts';

export function Clock({ ms }: { ms: number }) {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      <span class="clock">{clockText(ms)}</span>
    </time>
  );
}

/** When a message was received. @param date ISO 8601; null if the message has none */
export function Received({ date, day = false }: { date: string | null; day?: boolean }) {
  return date === null ? (
    <span class="when">no date</span>
  ) : (
    <Moment ms={Date.parse(date)} day={day} />
  );
}

/** A moment such as `20 Nov 2026 14:05` in the machine's zone; `day` omits the time. */
export function Moment({ ms, day = false }: { ms: number; day?: boolean }) {
  return (
    <time dateTime={new Date(ms).toISOString()}>
      {dayText(ms)}
      {!day && <span class="clock">{clockText(ms)}</span>}
    </time>
  );
}

const DAY_MS = 86_400_000;

const AGO = [
  [1, 'a day ago'],
  [7, 'a week ago'],
  [30, 'a month ago'],
  [365, 'a year ago'],
] as const;

/** The history bar. Without a script it moves by days. */
export function TimeBand({ frame }: { frame: Frame }) {
  const { past, query, state } = frame;
  const then = (moment: number | null): string => pageAddress('/mail', { q: asOf(query, moment) });
  // The link next to the query box opens it.
  if (past === null)
    return (
      <section class="band at-now" id="then" aria-label="As it was">
        <p class="steps">
          As it was
          {AGO.map(([days, words]) => (
            <a key={days} class="step" href={then(state.now - days * DAY_MS)}>
              {words}
            </a>
          ))}
        </p>
      </section>
    );
  return (
    <Band
      moment={past.asOf}
      back={then(null)}
      since={<Since frame={frame} />}
      track={<div class="track" />}
    >
      <a class="step" href={then(past.asOf - DAY_MS)}>
        − day
      </a>
      <a class="step" href={then(past.asOf + DAY_MS)}>
        + day
      </a>
    </Band>
  );
}

export function Since({ frame: { past, query } }: { frame: Frame }) {
  if (past === null) return null;
  const { messages, ended, later, day } = past;
  const then = asOfWord(query) || asOf('', past.asOf);
  const link = (q: string, text: string) => <Link q={q}>{text}</Link>;
  return (
    <span>
      {day !== null && (
        <b>
          On {day.name}: {link(day.stored.query, `${count(day.stored.count)} new`)},{' '}
          {link(day.deleted.query, `${count(day.deleted.count)} deleted`)}
        </b>
      )}
      {messages !== null && link(then, `${counted(messages, 'message')} known`)}
      {ended !== null && ended > 0 && (
        <>, {link(`is:deleted ${then}`, `${count(ended)} deleted at the service by then`)}</>
      )}
      {later !== null && later.count > 0 && (
        <>; {link(later.query, `${count(later.count)} stored since`)}</>
      )}
    </span>
  );
}

interface BandProps {
  /** Milliseconds since the epoch. */
  readonly moment: number;
  readonly back: string;
  readonly children: ComponentChildren;
  readonly track?: VNode;
  readonly since?: VNode;
}

export function Band({ moment, back, children, track, since }: BandProps) {
  return (
    <section class="band" id="then" aria-label="As it was">
      <div class="then">
        <p class="small">As it was on</p>
        <p class="when">
          {weekdayText(moment)} <Moment ms={moment} />
        </p>
        <p class="steps">{children}</p>
      </div>
      {track}
      <div class="now">
        <a class="btn primary" href={back}>
          <Icon name="past" />
          Back to now
        </a>
        {since}
      </div>
    </section>
  );
}
