import type { VNode } from 'preact';
import type { HistoryLine } from '../../catalog/message-history.ts';
import { count } from '../../wording/amounts.ts';
import { eventText } from '../../wording/history.ts';
import { type SourceWindow, WINDOW_BYTES } from '../reading/message-view.ts';
import { pageAddress } from '../reading/query-text.ts';
import { Proof } from './message-parts.tsx';
import type { MessagePaneProps } from './message-props.ts';
import { Moment } from './moment.tsx';

/** A part of the raw source, with links to the parts next to it. */
export function Source(props: MessagePaneProps & { readonly window: SourceWindow | null }): VNode {
  const { id, address, window } = props;
  if (window === null) return <p class="empty">The source has no such part.</p>;
  const { from, bytes: shown, size } = window;
  const part = (at: number, label: string): VNode => (
    <a class="btn" href={`${address(id, 'source')}&from=${at}`}>
      {label}
    </a>
  );
  return (
    <>
      <pre class="source">{shown.toString('utf8')}</pre>
      {size > shown.length && (
        <nav class="pages" aria-label="Parts of the source">
          {from > 0 && part(Math.max(0, from - WINDOW_BYTES), 'Earlier part')}
          <span class="spacer" />
          <span>
            bytes {count(from)} to {count(from + shown.length)} of {count(size)}
          </span>
          <span class="spacer" />
          {from + shown.length < size && part(from + WINDOW_BYTES, 'Later part')}
        </nav>
      )}
      <Proof {...props} />
    </>
  );
}

/** Everything that happened to a message, oldest first. */
export function History({ lines }: { readonly lines: readonly HistoryLine[] }): VNode {
  return (
    <ol class="history">
      {lines.map(({ time, commit, event, mailbox, folder, uid, flags, detail }, i) => (
        <li key={i} class={event === 'ended' ? 'ended' : undefined}>
          {time === null ? <span /> : <Moment ms={Date.parse(time)} />}
          <div>
            <strong>{EVENTS[event] ?? event}</strong>{' '}
            <bdi class="muted">
              {mailbox} / {folder} / {uid}
            </bdi>
            <p class="small">
              {flags !== undefined && flags.length > 0 && <bdi>{flags.join(' ')} </bdi>}
              <bdi>{eventText(event, detail).join(' ')}</bdi>
              {time !== null && (
                <>
                  {' '}
                  <a class="link" href={pageAddress('/mail', { q: `asof:${time}` })}>
                    The archive then
                  </a>
                </>
              )}{' '}
              <span class="faint">commit {count(commit)}</span>
            </p>
          </div>
        </li>
      ))}
    </ol>
  );
}

const EVENTS: Readonly<Record<string, string>> = {
  appeared: 'Appeared',
  flags: 'Flags changed',
  ended: 'Deleted',
  reopened: 'Came back',
  held: 'Held',
  quarantined: 'Quarantined',
  verified: 'Verified',
  imported: 'Imported',
};
