import type { VNode } from 'preact';
import { count } from '../../wording/amounts.ts';
import { type SourceText, WINDOW_BYTES } from '../reading/message-shapes.ts';
import { Icon } from './icons.tsx';
import { type MessageContent, messageAddress } from './message-props.ts';

interface SourceProps {
  readonly message: MessageContent;
  readonly window: SourceText | null;
}

/** A part of the raw source, with links to the parts next to it, and a search of its own. */
export function Source({ message, window }: SourceProps): VNode {
  if (window === null) return <p class="empty">The source cannot be shown.</p>;
  const { from, length, size } = window;
  const address = messageAddress(message.place, message.id, 'source');
  const part = (at: number, label: string): VNode => (
    <a class="btn" href={`${address}&from=${at}`}>
      {label}
    </a>
  );
  return (
    <>
      <Find message={message} window={window} />
      {length === 0 && <p class="empty">The source has no such part.</p>}
      <pre class="source">
        <MarkedSource {...window} />
      </pre>
      {size > length && (
        <nav class="pages" aria-label="Parts of the source">
          {from > 0 && part(Math.max(0, from - WINDOW_BYTES), 'Earlier part')}
          <span class="spacer" />
          <span>
            bytes {count(from)} to {count(from + length)} of {count(size)}
          </span>
          <span class="spacer" />
          {from + length < size && part(from + WINDOW_BYTES, 'Later part')}
        </nav>
      )}
    </>
  );
}

/** Looks for a text in all of the source: a form, and links from match to match. */
function Find({
  message: { place, id },
  window: { find },
}: {
  readonly message: MessageContent;
  readonly window: SourceText;
}): VNode {
  const { page, query, sort, after } = place;
  const step = (hit: number | null, label: string): VNode | null =>
    hit === null ? null : (
      <a
        class="btn"
        href={`${messageAddress(place, id, 'source')}&${new URLSearchParams({
          find: find?.text ?? '',
          hit: String(hit),
        })}`}
      >
        {label}
      </a>
    );
  const kept = {
    q: query,
    sort,
    after,
    m: page === 'mail' ? id.slice(0, 16) : undefined,
    view: 'source',
  };
  return (
    <div class="find">
      <form action={page === 'mail' ? '/mail' : `/m/${id}`} class="find-form">
        {Object.entries(kept).map(
          ([name, value]) =>
            value !== undefined &&
            value !== '' && <input key={name} type="hidden" name={name} value={value} />,
        )}
        <Icon name="search" />
        <input
          name="find"
          value={find?.text ?? ''}
          maxlength={100}
          aria-label="Find in the source"
          placeholder="Find in the source"
          autocomplete="off"
          spellcheck={false}
        />
        <button type="submit" class="btn">
          Find
        </button>
      </form>
      {find !== null && (
        <span role="status">
          {find.count === 0 ? 'Not found' : `${count(find.number)} of ${count(find.count)}`}
        </span>
      )}
      {step(find?.previous ?? null, 'Previous')}
      {step(find?.next ?? null, 'Next')}
    </div>
  );
}

function MarkedSource({ text, find, current }: SourceText): VNode {
  const parts: (string | VNode)[] = [];
  let at = 0;
  for (const { start, end } of find?.matches ?? []) {
    parts.push(
      text.slice(at, start),
      <mark key={start} class={start === current ? 'current' : undefined}>
        {text.slice(start, end)}
      </mark>,
    );
    at = end;
  }
  return (
    <>
      {parts}
      {text.slice(at)}
    </>
  );
}
