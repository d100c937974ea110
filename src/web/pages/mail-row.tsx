import type { VNode } from 'preact';
import type { SearchHit } from '../../catalog/search/hit.ts';
import { plainLine } from '../../mail/terminal-safe.ts';
import { count } from '../../wording/amounts.ts';
import type { ListHit } from '../reading/mail-list.ts';
import { Icon } from './icons.tsx';
import { Marked } from './marked.tsx';
import { Moment, Received } from './moment.tsx';
import { rowSnippet } from './row-snippet.ts';

interface RowProps {
  readonly hit: ListHit;
  readonly href: string;
  readonly chosen: boolean;
}

/** A message of a list. One that the service deleted has a hatched edge and says so. */
export function Row({ hit, href, chosen }: RowProps): VNode {
  return (
    <li class={rowClasses(hit)}>
      <a href={href} aria-current={chosen ? 'true' : undefined}>
        <RowText hit={hit} />
      </a>
    </li>
  );
}

/** Returns the classes of a row, by the state of its message. */
export function rowClasses(hit: ListHit): string {
  const { line } = hit;
  return [
    'row',
    ...(isUnread(line) ? ['unread'] : []),
    ...(endOf(hit) === null ? [] : ['ended']),
  ].join(' ');
}

/** When the service deleted a message, also after the moment that is shown; milliseconds since the epoch. */
function endOf({ line, since }: ListHit): number | null {
  if (line.endedAt !== null) return Date.parse(line.endedAt);
  return since?.kind === 'deleted' ? since.at : null;
}

function isUnread({ flags }: SearchHit['line']): boolean {
  return !flags.includes('\\Seen');
}

/** What a row says of its message, in three lines. */
export function RowText({ hit }: Pick<RowProps, 'hit'>): VNode {
  const { line, matches, attachmentMatches, conversation, since } = hit;
  const ended = endOf(hit);
  const attached = (line.attachments ?? []).some(({ inline }) => !inline);
  const [found] = line.matchedAttachments;
  const showsFound = found !== undefined && matches.length === 0;
  return (
    <>
      <span class="first">
        <span class="who">
          <bdi>{senderText(line.from)}</bdi>
        </span>
        {conversation !== undefined && (
          <span class="many">
            {count(conversation)}
            <span class="vh"> messages in the conversation</span>
          </span>
        )}
        <Received date={line.date} />
      </span>
      <span class="second">
        <span class="subj">
          <bdi>{plainLine(line.subject ?? '(no subject)')}</bdi>
        </span>
        <span class="marks">
          {isUnread(line) && <span class="vh">unread</span>}
          {line.flags.includes('\\Flagged') && (
            <>
              <Icon name="star" class="star" />
              <span class="vh">starred</span>
            </>
          )}
          {ended !== null && (
            <span class="tag ended">
              {line.endedAt === null ? 'deleted later, found ' : 'found gone '}
              <Moment ms={ended} day />
            </span>
          )}
          {since?.kind === 'moved' && (
            <span class="tag moved" title={`${since.mailbox} / ${since.folder}`}>
              now in <bdi>{since.folder}</bdi>
            </span>
          )}
          {attached && (
            <>
              <Icon name="clip" />
              <span class="vh">with attachments</span>
            </>
          )}
        </span>
      </span>
      <span class="snip">
        {showsFound ? (
          <>
            <Icon name="clip" />
            <bdi>{plainLine(found.filename ?? 'an attachment')}</bdi>:{' '}
            <Marked {...rowSnippet(found.snippet, attachmentMatches[0] ?? [])} />
          </>
        ) : (
          <Marked {...rowSnippet(line.snippet, matches)} />
        )}
      </span>
    </>
  );
}

/** Returns how people know the sender of a message. */
export function senderText(from: SearchHit['line']['from']): string {
  if (from === null) return '(no sender)';
  return plainLine(from.name) || plainLine(from.address);
}
